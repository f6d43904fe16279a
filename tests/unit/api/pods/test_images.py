import pytest

from tfoperator.api.pods.images import image_problem

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "image",
    [
        "tensorflow",
        "tensorflow/tensorflow:2.20.0-gpu",
        "example.com/team/image:1.0",
        "example.com:5000/a_b/c__d/e-f.g:Latest_1",
        "EXAMPLE.com/a",
        "Registry/a",  # a host, for it has capitals
        "localhost/a",
        "[::1]:5000/a",
        f"example.com/a@{DIGEST}",
        f"example.com/a:1@{DIGEST}",
        "a" * 255,
    ],
)
def test_a_good_name(image: str) -> None:
    assert image_problem(image) == ""


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("gcr.io/${PROJECT_ID}/x", "${PROJECT_ID} is a placeholder, so replace it first"),
        ("<project>/x", "<project> is a placeholder"),
        ("{{ .Values.image }}", "{{ .Values.image }} is a placeholder"),
        ("$(IMAGE):1", "$(IMAGE) is a placeholder"),
        ("$IMAGE", "$IMAGE is a placeholder"),
        ("TensorFlow:1", "in lower case"),
        ("example.com/Team/image", "in lower case"),
        ("example.com/a b", "must be the name of an image"),
        ("a/-b", "must be the name of an image"),
        ("a//b", "must be the name of an image"),
        ("https://example.com/a", "must be the name of an image"),
        ("_.x.com/a", "must be the name of an image"),
        ("a:", "must have a tag"),
        ("a:b c", "must have a tag"),
        (f"a:{'t' * 129}", "must have a tag of at most 128"),
        ("a@sha256:12", "must have a digest"),
        ("a" * 256, "at most 255 characters"),
        ("a" * 64, "64 hexadecimal digits"),
    ],
)
def test_a_name_that_no_kubelet_can_read(image: str, words: str) -> None:
    assert words in image_problem(image)
