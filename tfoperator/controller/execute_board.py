"""Carries out what a plan says about a job's TensorBoard: few calls, and none of their failures touches the training.

A spec that the API server refuses (a volume that can't be) is told once and tried again with growing delays, unlike a
replica's, which makes the job invalid: a job that computes for days must not end for its pictures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import BoardAction, BoardCreate, BoardDelete, BoardPatch, PlannedEvent
from tfoperator.controller.children import RESOURCES, expectation_key
from tfoperator.controller.claim import Claimer
from tfoperator.controller.memory import JobMemory
from tfoperator.controller.name_taken import NameTaken, SaidOnce, Taken, resolve
from tfoperator.controller.outcome import is_final
from tfoperator.expectations import Expectations
from tfoperator.kube.errors import AlreadyExistsError, ConflictError, ForbiddenError, KubeError, NotFoundError
from tfoperator.kube.objects import decode_nothing
from tfoperator.kube.verbs import ApiClient

__all__ = ["BoardExecutor", "BoardOutcome"]

logger = logging.getLogger(__name__)

REASON_FAILED = "FailedTensorBoard"


class BoardOutcome(msgspec.Struct):
    """`errors` are to be repeated with growing delays; `waiting`: something is in the way that goes away by itself."""

    errors: list[KubeError] = []
    waiting: bool = False


class _Refused(SaidOnce):
    """The API server doesn't take the TensorBoard as the spec wants it, or doesn't let us make it."""


class BoardExecutor:
    """Executes the TensorBoard's part of plans. Thread-safe; the caller sees to one plan per job at a time."""

    def __init__(
        self,
        client: ApiClient,
        *,
        claimer: Claimer,
        expectations: Expectations,
        memory: JobMemory,
        emit: Callable[[TFJob, Sequence[PlannedEvent]], None],
    ) -> None:
        self._client = client
        self._claimer = claimer
        self._expectations = expectations
        self._memory = memory
        self._emit = emit

    def execute(self, job: TFJob, actions: Sequence[BoardAction]) -> BoardOutcome:
        """Carry out the actions, each whatever became of the others. API errors are in the outcome, not raised."""
        outcome = BoardOutcome()
        done: dict[str, list[str]] = {}
        for action in actions:
            try:
                words = self._act(job, action, outcome)
            except KubeError as error:
                if is_final(error) or isinstance(error, ForbiddenError):
                    message = f"Error with {_what(action)}: {error}"
                    self._warn(job, message)
                    outcome.errors.append(_Refused(message))
                else:
                    outcome.errors.append(error)
            else:
                if words:
                    done.setdefault(words, []).append(_what(action))
        self._emit(
            job,
            [
                PlannedEvent("Normal", f"TensorBoard{words}", f"{words} {' and '.join(what)}")
                for words, what in done.items()
            ],
        )
        return outcome

    def _act(self, job: TFJob, action: BoardAction, outcome: BoardOutcome) -> str:
        """What was done, as a past participle; "" if nothing was."""
        match action:
            case BoardCreate():
                return self._create(job, action, outcome)
            case BoardPatch():
                return self._patch(job, action, outcome)
            case BoardDelete():
                return self._delete(job, action)

    def _create(self, job: TFJob, action: BoardCreate, outcome: BoardOutcome) -> str:
        meta, resource = job.metadata, RESOURCES[action.kind]
        key = expectation_key(meta.uid, "", action.kind)
        self._expectations.expect_creations(key, 1)
        try:
            self._client.create(resource, meta.namespace, action.body, decode_nothing)
        except AlreadyExistsError:
            self._expectations.creation_observed(key)
            occupant = resolve(self._client, self._claimer, job, resource, action.name, None, board=True)
            if occupant.taken is Taken.FOREIGN:
                self._warn(job, occupant.message)
                outcome.errors.append(NameTaken(occupant.message))
            else:
                outcome.waiting = True
            return ""
        except BaseException:
            self._expectations.creation_observed(key)
            raise
        return "Created"

    def _patch(self, job: TFJob, action: BoardPatch, outcome: BoardOutcome) -> str:
        try:
            self._client.patch(RESOURCES[action.kind], job.metadata.namespace, action.name, action.body, decode_nothing)
        except (NotFoundError, ConflictError):
            # It is gone, or another one has its name: the cache will show it.
            outcome.waiting = True
            return ""
        return "Changed"

    def _delete(self, job: TFJob, action: BoardDelete) -> str:
        meta = job.metadata
        key = expectation_key(meta.uid, "", action.kind)
        self._expectations.expect_deletions(key, [action.uid])
        try:
            self._client.delete(
                RESOURCES[action.kind], meta.namespace, action.name, uid=action.uid, propagation_policy="Background"
            )
        except (NotFoundError, ConflictError):
            self._expectations.deletion_observed(key, action.uid)
            return ""
        except BaseException:
            self._expectations.deletion_observed(key, action.uid)
            raise
        return "Deleted"

    def _warn(self, job: TFJob, message: str) -> None:
        if self._memory.first_warning(job.metadata.uid, message):
            logger.warning("%s", message, extra={"job": job.metadata.key})
            self._emit(job, [PlannedEvent("Warning", REASON_FAILED, message)])


def _what(action: BoardAction) -> str:
    return f"{action.kind[:-1]} {action.name}"
