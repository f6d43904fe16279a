// Command protobufs writes, as JSON, how the built-in kinds look in protobuf and in JSON: the fields of every message
// that they are made of, read from the tags of the published Go types. With the argument "samples" it writes one
// filled object of each kind instead, in both forms: what a reader of the table has to agree with.
package main

import (
	"encoding/json"
	"log"
	"os"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var objects = []runtime.Object{
	&corev1.Pod{}, &corev1.Service{}, &corev1.Event{}, &corev1.Namespace{}, &corev1.Node{}, &corev1.ConfigMap{},
	&corev1.Secret{}, &corev1.ServiceAccount{}, &corev1.PersistentVolumeClaim{}, &corev1.Binding{},
	&appsv1.Deployment{}, &coordinationv1.Lease{}, &policyv1.Eviction{}, &autoscalingv1.Scale{},
	&authorizationv1.SelfSubjectAccessReview{}, &authorizationv1.SelfSubjectRulesReview{},
	&authorizationv1.SubjectAccessReview{}, &authenticationv1.SelfSubjectReview{}, &authenticationv1.TokenReview{},
	&authenticationv1.TokenRequest{}, &eventsv1.Event{}, &schedulingv1.PriorityClass{}, &metav1.DeleteOptions{},
}

// scalars are the types that JSON shows otherwise than as an object with the message's fields.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "microtime",
	reflect.TypeFor[metav1.FieldsV1]():      "json",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "int-or-string",
	reflect.TypeFor[runtime.RawExtension](): "json",
}

type table struct {
	// Kinds has the message of each "apiVersion/kind".
	Kinds map[string]string `json:"kinds"`
	// Messages has the fields of each message by number: "name type", with "*" behind a repeated type and "%" behind
	// that of a map's values. "!" in front says that an empty value is one; a name that is empty, that the fields of
	// the message belong to the one that holds it.
	Messages map[string]map[string]string `json:"messages"`
}

func name(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	return path[len(path)-2] + "." + t.Name()
}

func (all table) kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if scalar, ok := scalars[t]; ok {
		return scalar
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return all.kindOf(t.Elem()) + "*"
	case reflect.Map:
		// A named type of a map's values that is itself a list is a message with one repeated field.
		if value := t.Elem(); value.Kind() == reflect.Slice && value.Elem().Kind() != reflect.Uint8 {
			return "list:" + all.kindOf(value.Elem()) + "%"
		}
		return all.kindOf(t.Elem()) + "%"
	case reflect.Struct:
		all.add(t)
		return name(t)
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Uint8:
		return "int"
	case reflect.String:
		return "string"
	}
	log.Fatalf("no way to say %s", t)
	return ""
}

func (all table) add(t reflect.Type) {
	if _, known := all.Messages[name(t)]; known {
		return
	}
	fields := map[string]string{}
	all.Messages[name(t)] = fields
	for i := range t.NumField() {
		field := t.Field(i)
		number := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(number) < 2 {
			continue
		}
		member, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := all.kindOf(field.Type)
		if field.Type.Kind() == reflect.Pointer || (!strings.Contains(options, "omit") && field.Type.Kind() != reflect.Struct) {
			kind = "!" + kind
		}
		fields[number[1]] = strings.TrimSpace(member + " " + kind)
	}
}

// fill gives every field a value: the third of its kind is the same in each sample, so that they can be compared.
func fill(value reflect.Value, depth int) {
	if depth > 14 {
		return
	}
	switch filled := value.Addr().Interface().(type) {
	case *metav1.Time:
		*filled = metav1.Unix(1767225600, 0)
		return
	case *metav1.MicroTime:
		*filled = metav1.NewMicroTime(metav1.Unix(1767225600, 250000000).Time)
		return
	case *metav1.FieldsV1:
		filled.Raw = []byte(`{"f:a":{}}`)
		return
	case *resource.Quantity:
		*filled = resource.MustParse("1500m")
		return
	case *intstr.IntOrString:
		*filled = intstr.FromString("25%")
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), depth)
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).Type != reflect.TypeFor[metav1.TypeMeta]() {
				fill(value.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		for i := range 2 {
			fill(value.Index(i), depth+1)
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		item := reflect.New(value.Type().Elem()).Elem()
		fill(item, depth+1)
		value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), item)
	case reflect.String:
		value.SetString("text")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(-7)
	case reflect.Uint8:
		value.SetUint(200)
	}
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, policyv1.AddToScheme,
		autoscalingv1.AddToScheme, authorizationv1.AddToScheme, eventsv1.AddToScheme, authenticationv1.AddToScheme, schedulingv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			log.Fatal(err)
		}
	}
	out := json.NewEncoder(os.Stdout)
	if len(os.Args) > 1 && os.Args[1] == "samples" {
		serializer := protobuf.NewSerializer(scheme, scheme)
		for _, object := range objects {
			version, kind := names(scheme, object)
			fill(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(version.WithKind(kind))
			encoded, err := runtime.Encode(serializer, object)
			if err != nil {
				log.Fatal(err)
			}
			if err := out.Encode(map[string]any{"protobuf": encoded, "json": object}); err != nil {
				log.Fatal(err)
			}
		}
		return
	}
	all := table{map[string]string{}, map[string]map[string]string{}}
	for _, object := range objects {
		version, kind := names(scheme, object)
		all.Kinds[version.String()+"/"+kind] = all.kindOf(reflect.TypeOf(object))
	}
	out.SetIndent("", " ")
	if err := out.Encode(all); err != nil {
		log.Fatal(err)
	}
}

func names(scheme *runtime.Scheme, object runtime.Object) (version runtimeschema.GroupVersion, kind string) {
	if _, ok := object.(*metav1.DeleteOptions); ok { // it is registered in every group
		return runtimeschema.GroupVersion{Version: "v1"}, "DeleteOptions"
	}
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		log.Fatal(err)
	}
	return kinds[0].GroupVersion(), kinds[0].Kind
}
