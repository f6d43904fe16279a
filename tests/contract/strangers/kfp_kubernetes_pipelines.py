"""Pipelines with the options of kfp-kubernetes: compile ten of them. Arguments: the folder, and the image of all steps.

A step is a shell script. It prints what it sees of its pod.
"""

import sys
from pathlib import Path

from kfp import compiler, dsl
from kfp import kubernetes as k8s

folder, image = Path(sys.argv[1]), sys.argv[2]


@dsl.container_component
def say(script: str):  # type: ignore[no-untyped-def] # a return type would be an output
    return dsl.ContainerSpec(image=image, command=["sh", "-ec"], args=[script])


@dsl.container_component
def name_it(word: str, name: dsl.OutputPath(str)):  # type: ignore[no-untyped-def, valid-type]
    """Put out the word in the executor's output, which needs no volume in common with the runner."""
    script = 'echo "{\\"parameterValues\\": {\\"name\\": \\"$0\\"}}" >"$1"; : "$2"'
    return dsl.ContainerSpec(image=image, command=["sh", "-ec", script], args=[word, "{{$.outputs.output_file}}", name])


@dsl.pipeline(name="secret-env")
def secret_env(secret: str = "login") -> None:
    step = say(script='echo "$USER_NAME/$PASSWORD/$MODE"').set_caching_options(False)
    k8s.use_secret_as_env(step, secret, {"user": "USER_NAME", "password": "PASSWORD"})
    k8s.use_config_map_as_env(step, "modes", {"mode": "MODE"})
    k8s.use_config_map_as_env(step, "no-such-map", {"other": "OTHER"}, optional=True)


@dsl.pipeline(name="secret-files")
def secret_files(secret: str = "login", modes: str = "modes") -> None:
    script = "cat /mnt/kfp-secret/password /mnt/kfp-modes/mode; echo; (: >/mnt/kfp-secret/x) 2>&- || echo kept"
    step = say(script=script)
    k8s.use_secret_as_volume(step, secret, "/mnt/kfp-secret")
    k8s.use_config_map_as_volume(step, modes, "/mnt/kfp-modes")
    k8s.use_secret_as_volume(step, "no-such-secret", "/mnt/kfp-missing", optional=True)


@dsl.pipeline(name="named-by-a-task")
def named_by_a_task() -> None:
    named = name_it(word="login")
    step = say(script='echo "$PASSWORD"')
    k8s.use_secret_as_env(step, named.output, {"password": "PASSWORD"})


@dsl.pipeline(name="in-a-loop")
def in_a_loop() -> None:
    with dsl.ParallelFor(["login", "guest"]) as secret:
        step = say(script='echo "$USER_NAME"')
        k8s.use_secret_as_env(step, secret, {"user": "USER_NAME"})


@dsl.pipeline(name="claims")
def claims(claim: str = "kfp-claim", volume: str = "") -> None:
    made = k8s.CreatePVC(pvc_name=claim, access_modes=["ReadWriteMany"], size="1Mi", volume_name=volume)
    writer = say(script="echo kept >/mnt/kfp-part/text")
    k8s.mount_pvc(writer, made.outputs["name"], "/mnt/kfp-part", sub_path="part")
    reader = say(script="cat /mnt/kfp-claim/part/text").after(writer)
    k8s.mount_pvc(reader, made.outputs["name"], "/mnt/kfp-claim")
    k8s.DeletePVC(pvc_name=made.outputs["name"]).after(reader)


@dsl.pipeline(name="metadata")
def metadata() -> None:
    step = say(script='echo "$TEAM/$NOTE/$NONE"')
    k8s.add_pod_label(step, "team", "vision")
    k8s.add_pod_annotation(step, "example.com/note", "a note: $(HOME)")
    k8s.use_field_path_as_env(step, "TEAM", "metadata.labels['team']")
    k8s.use_field_path_as_env(step, "NOTE", "metadata.annotations['example.com/note']")
    k8s.use_field_path_as_env(step, "NONE", "metadata.labels['none']")


LINUX = {"kubernetes.io/os": "linux"}
SPARE = [{"key": "gpu", "operator": "Exists"}]


@dsl.pipeline(name="placement")
def placement(selector: dict = LINUX, spare: list = SPARE) -> None:
    step = say(script="echo placed")
    k8s.add_node_selector_json(step, selector)
    k8s.add_toleration(step, "dedicated", "Equal", "training", "NoSchedule")
    k8s.add_toleration_json(step, spare)
    k8s.add_node_affinity(step, match_expressions=[{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}])
    k8s.add_node_affinity(step, match_expressions=[{"key": "kubernetes.io/os", "operator": "Exists"}], weight=10)


@dsl.pipeline(name="empty-folders")
def empty_folders() -> None:
    step = say(script="ls -A /mnt/kfp-scratch; echo a >/mnt/kfp-scratch/a; echo b >/mnt/kfp-memory/b; cat /mnt/kfp-*/?")
    k8s.empty_dir_mount(step, "scratch", "/mnt/kfp-scratch", size_limit="1Mi")
    k8s.empty_dir_mount(step, "memory", "/mnt/kfp-memory", medium="Memory")


@dsl.pipeline(name="image")
def pulled() -> None:
    step = say(script="id -u")
    k8s.set_image_pull_policy(step, "IfNotPresent")
    k8s.set_image_pull_secrets(step, ["no-such-registry"])
    k8s.set_security_context(step, run_as_user=1234, run_as_non_root=True)


@dsl.pipeline(name="too-long")
def too_long() -> None:
    step = say(script="trap 'exit 3' TERM; echo begins; sleep 60 & wait")
    k8s.set_timeout(step, 2)


for pipeline in [
    secret_env, secret_files, named_by_a_task, in_a_loop, claims, metadata, placement, empty_folders, pulled, too_long
]:  # fmt: skip
    compiler.Compiler().compile(pipeline, str(folder / f"{pipeline.name}.yaml"))
