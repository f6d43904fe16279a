"""Secrets in texts that are quoted: recognized in each form, and ordinary lines stay as they are."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.base.masking import MASK, is_secret_name, masked, masked_lines, without_private_keys

SECRET = "hunter2hunter2"
KEY = "\n".join(("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7hunter2hunter2" + "A" * 3,) * 3 + ("k0Q==",))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (f"password={SECRET}", "password=<masked>"),
        (f"DB_PASSWORD: {SECRET}", "DB_PASSWORD: <masked>"),
        (f"export HF_TOKEN='{SECRET} x' step=3", "export HF_TOKEN='<masked>' step=3"),
        (f"MYSQL_PASS={SECRET}", "MYSQL_PASS=<masked>"),
        (f"password={SECRET},with;signs&in)it", "password=<masked>"),
        (f"connect(host=db, password={SECRET}, user=me)", "connect(host=db, password=<masked>, user=me)"),
        (f"password={SECRET},user=me", "password=<masked>,user=me"),
        (f'{{"api_key": "{SECRET}", "rate": 0.1}}', '{"api_key": "<masked>", "rate": 0.1}'),
        (f'{{"clientSecret":"a \\"{SECRET}\\", b"}}', '{"clientSecret":"<masked>"}'),
        (f'body: "{{\\"accessToken\\": \\"{SECRET}\\"}}"', 'body: "{\\"accessToken\\": \\"<masked>\\"}"'),
        (f"{{'secret_access_key': '{SECRET}'}}", "{'secret_access_key': '<masked>'}"),
        (f"password: {SECRET}  # of the database", "password: <masked>  # of the database"),
        (f"password: correcthorse\nuser: me {SECRET[:0]}", "password: <masked>\nuser: me "),
        (f"token: |\n  {SECRET}\nuser: me", "token: |\n  <masked>\nuser: me"),
        (
            f"- name: HF_TOKEN\n  value: {SECRET}\n- name: RATE\n  value: 1",
            "- name: HF_TOKEN\n  value: <masked>\n- name: RATE\n  value: 1",
        ),
        (f'{{"name": "DB_PASSWORD", "value": "{SECRET}"}}', '{"name": "DB_PASSWORD", "value": "<masked>"}'),
        (f"train.py --hub-token {SECRET} --steps 3", "train.py --hub-token <masked> --steps 3"),
        (f"train.py --hub-token={SECRET} --steps 3", "train.py --hub-token=<masked> --steps 3"),
        (f"['train.py', '--api-key', '{SECRET}']", "['train.py', '--api-key', '<masked>']"),
        (f"[('password', '{SECRET}'), ('user', 'me')]", "[('password', '<masked>'), ('user', 'me')]"),
        (f"Authorization: Bearer {SECRET}", "Authorization: <masked>"),
        (f"{{'Authorization': 'token {SECRET}'}}", "{'Authorization': '<masked>'}"),
        (f"> authorization: Basic {SECRET}==", "> authorization: <masked>"),
        (f"got the header bearer {SECRET}", "got the header bearer <masked>"),
        (f"Set-Cookie: session={SECRET}; path=/", "Set-Cookie: <masked>"),
        (f"X-Api-Key: {SECRET}", "X-Api-Key: <masked>"),
        (f'{{"auths": {{"example.com": {{"auth": "{SECRET}"}}}}}}', '{"auths": {"example.com": {"auth": "<masked>"}}}'),
        (f"postgresql://me:{SECRET}@db/records", "postgresql://db/records"),
        (f"1https://me:{SECRET}@host/x", "1https://host/x"),
        (f"GET https://host/data?X-Amz-Signature={SECRET} 403", "GET https://host/data?... 403"),
        ("Name=x;AccountKey=hunter2/hunter2+x==;Suffix=y", "Name=x;AccountKey=<masked>;Suffix=y"),
        ("aws AKIAHUNTER2HUNTER2HU and more", "aws <masked> and more"),
        (f"ghp_{SECRET}{SECRET}", MASK),
        (f"github_pat_{SECRET}_{SECRET}", MASK),
        (f"glpat-{SECRET}-{SECRET}", MASK),
        (f"(hf_{SECRET}{SECRET})", "(<masked>)"),
        (f"sk-proj-{SECRET}-{SECRET}", MASK),
        (f"ya29.{SECRET}{SECRET}", MASK),
        (f"AIza{SECRET}{SECRET}{SECRET}", MASK),
        (f"xoxb-{SECRET}", MASK),
        (f"jwt eyJhbGciOiJI.{SECRET}.{SECRET}", "jwt <masked>"),
        (f"before\n{PEM}\nafter", "before\n<masked>\nafter"),
        (PEM.replace("\n", "\\n"), MASK),
        (f'"private_key": "{PEM}", "x": 1'.replace("\n", "\\n"), '"private_key": "<masked>", "x": 1'),
        (PEM.replace("\n", "\n2026-01-01 INFO "), MASK),
        (PEM.replace("RSA", "OPENSSH"), MASK),
        (f"-----BEGIN PRIVATE KEY-----\n{KEY[:150]}\nstep 3\nstep 4", "<masked>\nstep 3\nstep 4"),
        (f"step 2\n{KEY}\n-----END PRIVATE KEY-----\nstep 3", "step 2\n<masked>\nstep 3"),
        (f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{KEY}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----", MASK),
    ],
)  # fmt: skip
def test_a_secret_is_masked_and_the_text_around_it_stays(text: str, seen: str) -> None:
    assert masked(text) == seen
    assert masked(seen) == seen


@pytest.mark.parametrize(
    "text",
    [
        "step 120, loss=0.123, accuracy: 0.967",
        "token_count: 5",
        "tokens: 512",
        "num_tokens=51200",
        "max_token=512",
        "tokenizer: bert-base-uncased",
        "bos_token='<s>', eos_token='</s>', pad_token=[PAD], unk_token: <|endoftext|>",
        "KeyError: 'token'",
        "secretName: data",
        "secretKeyRef: {name: data}",
        "the password is wrong",
        "token: None",
        "api_key=null",
        "could not load credentials: file not found",
        "Invalid token: unexpected end of file",
        "a basic example, basic training of bearer channels",
        "commit 4f2c1d0e9b8a7f6e5d4c3b2a1908f7e6d5c4b3a2",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "PWD=/home/me/train",
        "passed: 12, forward_pass: 0.12",
        "task-0123456789-abcdefghijkl is done",
        "grpc://10.0.0.1:2222 refused",
        "https://example.com/docs",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQ\n-----END CERTIFICATE-----",
        "key=value, public_key: abcdefgh, primary key: row1234567",
        "author: someone, authentication: password",
        "",
    ],
)
def test_an_ordinary_line_stays(text: str) -> None:
    assert masked(text) == text


def test_a_secret_across_lines_is_masked_and_no_line_is_lost() -> None:
    assert masked_lines(["a", *PEM.split("\n"), "b", "", f"token={SECRET}"]) == ("a", MASK, "b", "", "token=<masked>")
    assert masked_lines([]) == ()
    assert masked_lines([""]) == ("",)


@pytest.mark.parametrize("name", ["HF_TOKEN", "password", "--api-key", "dbPassword", "AWS_SECRET_ACCESS_KEY", "X_PASS"])
def test_the_name_of_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "RATE", "secretName", "compass", "key", "PASS_RATE"])
def test_the_name_of_an_ordinary_variable(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "-",
        "--",
        "a-",
        "password=",
        "password",
        "password=a,",
        "token: a ",
        "token: |\n",
        '"token": "',
        "\\",
        "'",
        '"',
        "name: a ",
        "name:a",
        "name: token ",
        "--token ",
        "-token",
        "('token', ",
        "authorization: ",
        "bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
        "AAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n",
        "AAAAAAAAAAAAAAAAAAAA\n",
        "http://a:",
        "://",
        "a://a ",
        "eyJ",
        "eyJaaaaaaaaa-",
        "eyJaaaaaaaaa.",
        "sk-a-",
        "sk-",
        "hf_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "ghp_ ",
        ",&;",
    ],
)
def test_a_megabyte_of_one_line_takes_seconds_at_most(piece: str) -> None:
    # The words at the end switch every rule on..
    words = " eyJ hf_ sk- password token :// PRIVATE KEY basic name"
    begun = time.process_time()
    masked(piece * (1_000_000 // len(piece)) + words)
    assert time.process_time() - begun < 3


@given(st.text())
def test_a_masked_text_stays_the_same_when_it_is_masked_again(text: str) -> None:
    assert masked(masked(text)) == masked(text)


_WORDS = [
    *("password", "token", "=", ": ", '"', "'", "\\", "--", " ", "\n", "abcd1", "://", "a@", MASK, ",", "Bearer "),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "hf_aaaaaaaaaaaaaaaaaaaaaaaa"),
    *("authorization", "name: ", "value: "),
]


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map("".join))
def test_a_text_of_parts_of_secrets_stays_the_same_when_it_is_masked_again(text: str) -> None:
    once = masked(text)
    assert masked(once) == once


@given(st.lists(st.sampled_from([*_WORDS, f"{KEY[:64]}\n", "step 3\n"]), max_size=12).map("".join))
def test_lines_keep_their_numbers_where_line_ends_are_kept(text: str) -> None:
    assert without_private_keys(text, keep_line_ends=True).count("\n") == text.count("\n")


def test_a_key_leaves_empty_lines_where_line_ends_are_kept() -> None:
    for key in (PEM, f"{KEY}\n-----END PRIVATE KEY-----"):
        kept = without_private_keys(f"step 2\n{key}\nstep 3", keep_line_ends=True).split("\n")
        number = key.count("\n") + 1
        assert kept == ["step 2", MASK, *[""] * (number - 1), "step 3"]
