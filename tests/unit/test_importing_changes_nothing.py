"""An import of a module of ours gives names, and changes nothing else in the process: no library, no setting."""

import json
import subprocess
import sys

TRAINING = "tfoperator.progress.keras_callbacks"
"""It imports Keras, which takes seconds and changes what it likes."""

OWN_COUNTERS = {"concurrent.futures.ThreadPoolExecutor", "sqlalchemy.util.langhelpers._creation_order"}
"""Libraries change these themselves when they are used: a name that is imported late, the number of the next table."""

PROGRAM = f"""
import importlib, json, pkgutil, sys

def of_ours():
    import tfoperator
    names = [module.name for module in pkgutil.walk_packages(tfoperator.__path__, "tfoperator.")]
    return [name for name in names if name != {TRAINING!r}]

def import_all(names):
    for name in names:
        importlib.import_module(name)

def of_others():
    ours = ("tfoperator", "__main__", "__mp_main__")  # multiprocessing gives this program a second name
    return [name for name in sys.modules if name.partition(".")[0] not in ours]
"""

LIST = """
names = of_ours()
import_all(names)
print(json.dumps([names, of_others()]))
"""

COMPARE = """
import asyncio, gc, inspect, locale, logging, os, random, signal, socket, threading, warnings

ours, others = json.load(sys.stdin)

def of_logger(logger):
    return logger.level, list(logger.handlers), list(logger.filters), logger.propagate

def is_set(logger):
    return not logger.name.startswith("tfoperator") and of_logger(logger) != (0, [], [], True)

def settings():
    mask = os.umask(0o22)
    os.umask(mask)
    entries = logging.root.manager.loggerDict.items()
    loggers = [(name, logger) for name, logger in entries if isinstance(logger, logging.Logger)]
    return {
        "signal handlers": [str(signal.getsignal(number)) for number in signal.valid_signals()],
        "root logger": (of_logger(logging.root), logging.root.manager.disable),
        "other loggers": {name: of_logger(logger) for name, logger in loggers if is_set(logger)},
        "warnings' filters": list(warnings.filters),
        "environment": dict(os.environ),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook, sys.breakpointhook),
        "time-out of sockets": socket.getdefaulttimeout(),
        "locale": locale.setlocale(locale.LC_ALL),
        "umask": mask,
        "working directory": os.getcwd(),
        "recursion limit": sys.getrecursionlimit(),
        "garbage collection": (gc.get_threshold(), gc.isenabled(), list(gc.callbacks), gc.get_freeze_count()),
        "policy of event loops": type(asyncio.get_event_loop_policy()),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "paths of imports": (list(sys.path), list(sys.meta_path), list(sys.path_hooks)),
        "threads": threading.active_count(),
        "random numbers": random.getstate(),
    }

def identities(owner):
    return {name: value for name, value in vars(owner).items() if not name.startswith("__")}

def attributes():
    attributes_by_owner = {}
    for module_name in others:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        attributes_by_owner[module_name] = identities(module)
        for name, value in list(vars(module).items()):
            if inspect.isclass(value) and value.__module__ == module_name:
                attributes_by_owner[module_name + "." + name] = identities(value)
    return attributes_by_owner

for name in others:
    try:
        importlib.import_module(name)
    except Exception:  # an optional part that only its own package imports
        pass
before, attributes_before = settings(), attributes()
import_all(ours)
after, attributes_after = settings(), attributes()
changed = [name for name in before if before[name] != after[name]]
for owner, members in attributes_before.items():
    now = attributes_after.get(owner, {})
    changed += [owner + "." + name for name, value in members.items() if name not in now or now[name] is not value]
    changed += [owner + "." + name for name in now.keys() - members.keys() if owner + "." + name not in sys.modules]
print(json.dumps(changed))
"""


def run(program: str, given: str = "") -> str:
    command = [sys.executable, "-c", PROGRAM + program]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_no_module_changes_a_library_or_a_setting_of_the_process_when_it_is_imported() -> None:
    modules = run(LIST)
    assert "asyncio.sslproto" in json.loads(modules)[1]
    assert set(json.loads(run(COMPARE, modules))) - OWN_COUNTERS == set()
