"""Programs of elastic jobs that note each of their steps, for the tests on this machine and on a node."""

WRAPPED = """
import json, os, runpy, sys
folder, program = sys.argv[1:]
task = json.loads(os.environ.get("TF_CONFIG") or '{"task": {"index": 0}}')["task"]["index"]
open(f"{folder}/process-{task}", "w").write(str(os.getpid()))
sys.stdout = open(f"{folder}/notes", "a", 1)
sys.argv = [program, "--steps", "1000000", "--checkpoint-dir", folder]
runpy.run_path(program, run_name="__main__")
"""
"""Runs a program that appends its output to FOLDER/notes; FOLDER/process-N has the number of worker N's process."""

FITTING = """
import os, time
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy
from tfoperator.progress import SavingCallback
worker, workers = 0, 1
if "KERAS_DISTRIBUTION_NUM_PROCESSES" in os.environ:
    keras.distribution.initialize()
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    worker, workers = (int(os.environ[f"KERAS_DISTRIBUTION_{name}"]) for name in ("PROCESS_ID", "NUM_PROCESSES"))
keras.utils.set_random_seed(1)
inputs = numpy.arange(40000, dtype="float32").reshape(10000, 4) / 40000
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
done = 0
class Begins(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        global done
        done = int(self.model.optimizer.iterations)
        print(f"worker {worker} of {workers} begins after step {done}")
class Steps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        global done
        done += 1
        print(f"worker {worker} of {workers} step {done}")
        time.sleep(0.1)
share = inputs[worker::workers]
callbacks = [Steps(), SavingCallback(), Begins()]
model.fit(share, share.sum(1), batch_size=10 // workers, epochs=100, shuffle=False, verbose=0, callbacks=callbacks)
"""
"""Fits with as many processes as there are. The batch of all together stays the same, so that a step means the same."""
