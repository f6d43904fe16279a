"""Claims that a pipeline makes and deletes, by the tasks CreatePVC and DeletePVC of kfp-kubernetes.

Tasks of these two kinds run no container. In a cluster, a launcher makes the PersistentVolumeClaim. On one machine, a
claim is a folder: `.tfoperator/claims/NAME` in the current folder. Steps that mount the claim share this folder. The
folder is kept after the run.

DeletePVC deletes only claims that CreatePVC has made. So a pipeline file from an untrusted author can't delete claims
that were made in another way, for example with kubectl.
"""

from __future__ import annotations

import abc
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

from tfoperator.base.private_files import make_folders
from tfoperator.kube import Client
from tfoperator.kube.protocol.errors import AlreadyExistsError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import PERSISTENT_VOLUME_CLAIMS
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.objects import HasMetadata
from tfoperator.launcher import BaseComponentLauncher, ComponentError, ExecutorSpec, PermanentFailure, PlatformConfig
from tfoperator.launcher.container.backend import Launch, Mailbox
from tfoperator.launcher.core.component import ArtifactDict, Json
from tfoperator.launcher.core.output_document import Output, OutputArtifact
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.pipeline.kfp.options import annotations_of, object_name
from tfoperator.pipeline.kfp.pod_options import claim_spec, storage_class

CLAIMS = Path(".tfoperator", "claims")
_MADE = ".made"
"""The name of a folder. For each claim that a pipeline has made, the folder contains an empty file. A claim can't
have this name, because the names of claims don't begin with a dot.
"""
CLAIM_LABEL = "tfoperator.launcher/claim"
"""The label of claims that pipelines have made. Its value identifies the launch that made the claim (`record.run`)."""
IMAGES: Mapping[str, Literal["create", "delete"]] = {"argostub/createpvc": "create", "argostub/deletepvc": "delete"}
"""The action of a task by its image. Images with these names do not exist: kfp-kubernetes writes the names to mark the
tasks.
"""
_DATA_SOURCE = ("apiGroup", "kind", "name")

_decode = decoder(HasMetadata)


class ClaimSpec(ExecutorSpec, frozen=True):
    """The action of a task on a claim. The parameters of the task have the same names as in CreatePVC and DeletePVC."""

    action: Literal["create", "delete"]


def claim_folder(name: str, place: Path = CLAIMS) -> Path:
    """Return the folder of a claim on this machine.

    Raises ComponentError if the name is not valid for a claim, or if the folder is a symbolic link. The folder need not
    exist.
    """
    path = place.absolute() / object_name("the claim", name)
    if os.path.realpath(path) != os.path.join(os.path.realpath(path.parent), path.name):
        raise ComponentError(f"claim {name}: {path} must not be a symbolic link: remove the link")
    return path


def made_folder(path: Path) -> Path:
    """Make the folder of a claim with mode 0777, and return it.

    Containers can run with any user ID, and must be able to write to the claim's folder. The parent folder is private,
    so other users of this machine can't reach the claim's folder.
    """
    make_folders(path)
    path.chmod(0o777)
    return path


class _ClaimLauncher(BaseComponentLauncher):
    """The base of the launchers of tasks that make and delete claims."""

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether the spec is a ClaimSpec (a task that makes or deletes a claim), without a platform config."""
        return isinstance(executor_spec, ClaimSpec) and platform_spec is None

    def dry_run(self) -> str:
        """Return the action of the task with its parameters."""
        return yaml.safe_dump(
            {"claim": self._action, "parameters": dict(self.component.exec_properties)}, sort_keys=False
        )

    @property
    def _action(self) -> str:
        spec = self.component.executor_spec
        assert isinstance(spec, ClaimSpec)
        return spec.action

    def _given_name(self) -> str:
        return object_name(f"component {self.component.name}", self._given("pvc_name"))

    def _given(self, name: str) -> Any:
        return self.component.exec_properties.get(name)

    def _new_name(self) -> str:
        """Return the name of the new claim: the parameter `pvc_name`, or `RUN-SUFFIX`.

        RUN is the random id of the launch (`record.run`), and SUFFIX is the parameter `pvc_name_suffix`. Raises
        ComponentError unless exactly one of the two parameters is set.
        """
        what, suffix = f"component {self.component.name}", self._given("pvc_name_suffix")
        if (self._given("pvc_name") in (None, "")) == (suffix in (None, "")):
            raise ComponentError(f"{what}: a new claim must have either pvc_name or pvc_name_suffix")
        if suffix in (None, ""):
            return self._given_name()
        return object_name(what, f"{self.record.run}-{str(suffix).removeprefix('-')}")

    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        del execution_id
        self._runs_with(input_dict, output_dict, exec_properties)
        self.context.still_ours()
        try:
            if self._action == "delete":
                self._delete(self._given_name())
                return None
            name = self._new_name()
            self._create(name)
        except ComponentError as error:
            raise PermanentFailure(str(error)) from error
        return Output(outputs={"name": OutputArtifact(properties={"value": name})})

    @abc.abstractmethod
    def _create(self, name: str) -> None:
        """Make the claim. Raises PermanentFailure if a claim of this name exists that must not be used.

        In a cluster, this is any claim that this launch has not made. On one machine, it is a folder that CreatePVC has
        not made. A folder that an earlier run has made with CreatePVC is used again.
        """

    @abc.abstractmethod
    def _delete(self, name: str) -> None:
        """Delete the claim, if it exists. Raises PermanentFailure if CreatePVC has not made the claim."""


class FolderClaimLauncher(_ClaimLauncher):
    """Makes and removes claims of this machine, which are folders.

    A folder has no size and no storage class, so these parameters of CreatePVC have no effect.
    """

    kind = "folder-claim"

    def _create(self, name: str) -> None:
        folder = claim_folder(name)
        mark = folder.parent / _MADE / name
        try:
            if folder.exists() and not mark.exists():
                raise PermanentFailure(f"claim {name} exists already: {folder}")
            make_folders(mark.parent)
            mark.touch(0o600)
            made_folder(folder)
        except OSError as error:
            raise PermanentFailure(f"claim {name} can't be created: {error}") from error
        self.context.tell(f"claim {name} is {folder}")

    def _delete(self, name: str) -> None:
        folder = claim_folder(name)
        mark = folder.parent / _MADE / name
        if not mark.exists():
            if folder.exists():
                raise PermanentFailure(f"claim {name} was not created by a pipeline: remove {folder} yourself")
            return
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise PermanentFailure(f"claim {name}: {folder} can't be removed")
        mark.unlink(missing_ok=True)


class KubernetesClaimLauncher(_ClaimLauncher):
    """Makes and deletes PersistentVolumeClaims in the namespace of the steps' pods."""

    kind = "kubernetes-claim"

    def _create(self, name: str) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUME_CLAIMS.kind,
            "metadata": {
                "name": name,
                "labels": {CLAIM_LABEL: self.record.run},
                "annotations": annotations_of(
                    f"component {self.component.name}: annotations", self._given("annotations") or {}
                ),
            },
            "spec": self._spec(),
        }
        with self.context.kube() as client:
            calls = self._calls(client)
            try:
                calls.patiently(
                    f"create claim {name}",
                    lambda: client.create(PERSISTENT_VOLUME_CLAIMS, calls.namespace, manifest, _decode),
                )
            except AlreadyExistsError:
                # An earlier launcher of this launch, which was killed, may have made the claim.
                if self._label_of(calls, name) != self.record.run:
                    raise PermanentFailure(f"claim {calls.namespace}/{name} exists already") from None
            except KubeError as error:
                raise PermanentFailure(f"claim {calls.namespace}/{name} can't be created: {error}") from error
        self.context.tell(f"claim {name} exists")

    def _delete(self, name: str) -> None:
        with self.context.kube() as client:
            calls = self._calls(client)
            try:
                claim = calls.patiently(
                    f"get claim {name}",
                    lambda: client.get(PERSISTENT_VOLUME_CLAIMS, calls.namespace, name, _decode),
                )
                if CLAIM_LABEL not in claim.metadata.labels:
                    raise PermanentFailure(
                        f"claim {calls.namespace}/{name} was not created by a pipeline (it does not have the label "
                        f"{CLAIM_LABEL}): delete the claim yourself"
                    )
                calls.patiently(
                    f"delete claim {name}",
                    lambda: client.delete(PERSISTENT_VOLUME_CLAIMS, calls.namespace, name, uid=claim.metadata.uid),
                )
            except NotFoundError:
                self.context.tell(f"claim {name} does not exist")
            except KubeError as error:
                raise PermanentFailure(f"claim {calls.namespace}/{name} can't be deleted: {error}") from error

    def _label_of(self, calls: ApiCalls, name: str) -> str:
        claim = calls.patiently(
            f"get claim {name}", lambda: calls.client.get(PERSISTENT_VOLUME_CLAIMS, calls.namespace, name, _decode)
        )
        return claim.metadata.labels.get(CLAIM_LABEL, "")

    def _spec(self) -> Json:
        where = f"component {self.component.name}"
        spec = claim_spec(where, self._given("access_modes"), self._given("size"))
        if (kind := self._given("storage_class_name")) is not None:
            spec["storageClassName"] = storage_class(where, kind)
        if volume := self._given("volume_name"):
            spec["volumeName"] = object_name(f"{where}: volume_name", volume)
        if source := self._given("data_source"):
            known = isinstance(source, dict) and source.keys() <= set(_DATA_SOURCE)
            if not known or not all(isinstance(text, str) and len(text) <= _MAX_NAME for text in source.values()):
                raise ComponentError(
                    f"{where}: data_source may have only the fields {', '.join(_DATA_SOURCE)}, each with a text of at "
                    f"most {_MAX_NAME} characters, but is {source!r:.200}"
                )
            spec["dataSource"] = dict(source)
        return spec

    def _calls(self, client: Client) -> ApiCalls:
        launch = Launch(
            self.component.name, self.record.run, self.context, self.cancelled, self.work, Mailbox(self.context.clock)
        )
        return ApiCalls(client, self.context.namespace or client.namespace or "default", launch)


_MAX_NAME = 253
