"""Train on data that takes long to prepare, prepared by the data workers of the job (`spec.dataService`).

    tfoperator run examples/data-service/train.py --data-workers 4

Each element takes `--wait` milliseconds to prepare, as if it were read from far away. The program prints its steps per
second, and how often it has seen the elements. Without a data service it prepares them itself, one after the other.
"""

import argparse
import collections
import os
import time

import tensorflow as tf

service = tf.data.experimental.service


def slowly(element: tf.Tensor, milliseconds: int) -> tf.Tensor:
    """Return the element after a wait in TensorFlow's runtime, where it uses no CPU."""
    inner = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(tf.data.Dataset.from_tensors(element)),
        sleep_microseconds=tf.constant(1000 * milliseconds, tf.int64),
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return tf.data.experimental.from_variant(inner, tf.TensorSpec([], tf.int64)).get_single_element()


def main() -> None:
    """Train, and count the elements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, default=400)
    parser.add_argument("--wait", type=int, default=20, help="milliseconds that an element takes to prepare")
    parser.add_argument("--sharding", choices=["OFF", "DYNAMIC"], default="DYNAMIC")
    options = parser.parse_args()

    dataset = tf.data.Dataset.range(options.elements).map(lambda element: slowly(element, options.wait))
    address = os.environ.get("TF_DATA_SERVICE")
    if address:
        # Everything above this line runs on the data workers, and everything below it runs here.
        policy = getattr(service.ShardingPolicy, options.sharding)
        dataset = dataset.apply(service.distribute(processing_mode=policy, service=address))

    weight = tf.Variable(0.0)
    seen: collections.Counter[int] = collections.Counter()
    first = None
    for step, element in enumerate(dataset, start=1):
        first = first or time.monotonic()
        weight.assign_add(0.01 * (tf.cast(element, tf.float32) - weight))
        seen[int(element)] += 1
        if step % 50 == 0:
            print(f"step {step}", flush=True)
    steps, seconds = seen.total() - 1, time.monotonic() - (first or 0)
    print(f"{steps / seconds:.1f} steps per second")
    times = collections.Counter(seen[element] for element in range(options.elements))
    for number, elements in sorted(times.items()):
        print(f"{elements} elements were seen {number} times")


if __name__ == "__main__":
    main()
