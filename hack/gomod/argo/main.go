// Command argo answers what Argo Workflows makes of a manifest. It reads a Workflow or a WorkflowTemplate and writes JSON:
// what its validation says, and which commands the pods of the DAG would get, with the controller's own substitution.
//
//	argo [-uid UID] [-p name=value]... < workflow.yaml
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	apiv1 "k8s.io/api/core/v1"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/util/expr/argoexpr"
	exprenv "github.com/argoproj/argo-workflows/v3/util/expr/env"
	"github.com/argoproj/argo-workflows/v3/util/template"
	"github.com/argoproj/argo-workflows/v3/workflow/common"
	"github.com/argoproj/argo-workflows/v3/workflow/validate"
)

type task struct {
	Name         string   `json:"name"`
	Dependencies []string `json:"dependencies"`
	Command      []string `json:"command"`
	Args         []string `json:"args"`
	// Repeated says for exit codes of the pod whether the controller would try again.
	Repeated map[string]bool `json:"repeated"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	Tasks []task `json:"tasks,omitempty"`
	Exit  *task  `json:"exit,omitempty"`
}

type pairs []string

func (p *pairs) String() string { return strings.Join(*p, ",") }

func (p *pairs) Set(text string) error { *p = append(*p, text); return nil }

func main() {
	var given pairs
	uid := flag.String("uid", "11111111-2222-3333-4444-555555555555", "the workflow's UID")
	flag.Var(&given, "p", "a workflow parameter")
	flag.Parse()
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	found, err := answered(body, *uid, given)
	if err != nil {
		found = answer{Error: err.Error()}
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}

func answered(body []byte, uid string, given []string) (answer, error) {
	wf, err := read(body)
	if err != nil {
		return answer{}, err
	}
	for _, text := range given {
		name, value, _ := strings.Cut(text, "=")
		override(wf, name, value)
	}
	if err := validate.ValidateWorkflow(nil, nil, wf, validate.ValidateOpts{Submit: true}); err != nil {
		return answer{}, err
	}
	wf.Name, wf.UID = wf.GenerateName+"x7k2p", "u"
	globals := common.Parameters{
		common.GlobalVarWorkflowName:      wf.Name,
		common.GlobalVarWorkflowNamespace: "default",
		common.GlobalVarWorkflowUID:       uid,
	}
	all, err := json.Marshal(wf.Spec.Arguments.Parameters)
	if err != nil {
		return answer{}, err
	}
	globals[common.GlobalVarWorkflowParameters] = string(all)
	globals[common.GlobalVarWorkflowParametersJSON] = string(all)
	for _, one := range wf.Spec.Arguments.Parameters {
		globals["workflow.parameters."+one.Name] = one.Value.String()
	}
	// As substituteGlobalVariables: all of the spec but its templates, which must stay JSON.
	spec := wf.Spec
	spec.Templates = nil
	if err := replaced(spec, globals, &spec); err != nil {
		return answer{}, err
	}
	result := answer{}
	for _, one := range wf.GetTemplateByName(wf.Spec.Entrypoint).DAG.Tasks {
		var step wfv1.DAGTask
		if err := replaced(one, globals, &step); err != nil {
			return answer{}, err
		}
		made, err := pod(wf.GetTemplateByName(step.Template), &step.Arguments, globals)
		if err != nil {
			return answer{}, err
		}
		made.Name, made.Dependencies = step.Name, step.Dependencies
		result.Tasks = append(result.Tasks, made)
	}
	if wf.Spec.OnExit != "" {
		globals[common.GlobalVarWorkflowStatus] = "Succeeded"
		made, err := pod(wf.GetTemplateByName(wf.Spec.OnExit), &wfv1.Arguments{}, globals)
		if err != nil {
			return answer{}, err
		}
		made.Name = wf.Spec.OnExit
		result.Exit = &made
	}
	return result, nil
}

// read is what `argo lint` and `argo submit --from` do: a strict reader, then the validation of what was written.
func read(body []byte) (*wfv1.Workflow, error) {
	objects := common.ParseObjects(body, true)
	if len(objects) != 1 {
		return nil, fmt.Errorf("%d objects", len(objects))
	}
	if objects[0].Err != nil {
		return nil, objects[0].Err
	}
	switch object := objects[0].Object.(type) {
	case *wfv1.Workflow:
		return object, validate.ValidateWorkflow(nil, nil, object, validate.ValidateOpts{Lint: true})
	case *wfv1.WorkflowTemplate:
		err := validate.ValidateWorkflowTemplate(nil, nil, object, validate.ValidateOpts{Lint: true})
		wf := &wfv1.Workflow{Spec: object.Spec}
		wf.GenerateName = object.Name + "-"
		return wf, err
	}
	return nil, fmt.Errorf("no workflow")
}

func override(wf *wfv1.Workflow, name, value string) {
	for i := range wf.Spec.Arguments.Parameters {
		if wf.Spec.Arguments.Parameters[i].Name == name {
			wf.Spec.Arguments.Parameters[i].Value = wfv1.AnyStringPtr(value)
			return
		}
	}
	one := wfv1.Parameter{Name: name, Value: wfv1.AnyStringPtr(value)}
	wf.Spec.Arguments.Parameters = append(wf.Spec.Arguments.Parameters, one)
}

func replaced(from any, values common.Parameters, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	done, err := template.Replace(string(text), values, true)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(done), to)
}

// pod substitutes as executeTemplate does for a first try, and then as createWorkflowPod does.
func pod(tmpl *wfv1.Template, args wfv1.ArgumentsProvider, globals common.Parameters) (task, error) {
	local := common.Parameters{common.LocalVarPodName: "pod", common.LocalVarRetries: "0"}
	made, err := common.ProcessArgs(tmpl, args, globals, local, false, "default", nil)
	if err != nil {
		return task{}, err
	}
	made, err = common.SubstituteParams(made, globals, local)
	if err != nil {
		return task{}, err
	}
	values := globals.Merge(local)
	for _, one := range made.Inputs.Parameters {
		values["inputs.parameters."+one.Name] = one.Value.String()
	}
	var container apiv1.Container
	if err := replaced(made.Container, values, &container); err != nil {
		return task{}, err
	}
	found := task{Command: container.Command, Args: container.Args, Repeated: map[string]bool{}}
	for _, code := range []string{"-1", "1", "2", "75", "137", "143"} {
		if made.RetryStrategy == nil || made.RetryStrategy.Expression == "" {
			found.Repeated[code] = made.RetryStrategy != nil
			continue
		}
		scope := exprenv.GetFuncMap(map[string]any{common.LocalVarRetries: "0", common.LocalVarRetriesLastExitCode: code})
		if found.Repeated[code], err = argoexpr.EvalBool(made.RetryStrategy.Expression, scope); err != nil {
			return task{}, err
		}
	}
	return found, nil
}
