from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.settings import IngestSettings, Settings, SettingsError
from runtime.settings_source import describe, load
from tests.support.meanings import meanings

DOCS = describe()


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.path)
def test_every_setting_is_documented_with_unit_default_and_what_is_allowed(doc: Any) -> None:
    meaning = meanings()[doc.path]
    assert meaning.endswith((".", ")")), "a sentence"
    assert doc.default is not None
    assert doc.allowed
    if doc.type in {"number", "whole number"}:
        assert "from" in doc.allowed or "at least" in doc.allowed, "numbers are bounded"
    if doc.name.endswith("_s"):
        assert "second" in meaning.lower()
    if doc.name.endswith("_ms"):
        assert "millisecond" in meaning.lower()
    if doc.name.endswith("_bytes"):
        assert "bytes" in meaning.lower()


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.path)
def test_every_default_is_itself_allowed(doc: Any) -> None:
    settings = load(environ={}, overrides={doc.path: doc.default})
    holder = getattr(settings, doc.section) if doc.section else settings
    assert getattr(holder, doc.name) == doc.default


def test_defaults_without_any_source() -> None:
    assert load(environ={}) == Settings()
    assert load(environ={}).cluster == "default"


def test_file_then_environment_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "gatelog.toml"
    file.write_text(
        'cluster = "a"\nmode = "kueue"\n[nats]\nurl = "nats://file:4222"\n'
        '[streams]\nreplicas = 1\ncreate = false\n[webhook]\nexcluded_namespaces = ["x"]\n'
    )
    environ = {
        "GATELOG_CONFIG": str(file),
        "GATELOG_NATS_URL": "nats://env:4222",
        "GATELOG_STREAMS_REPLICAS": "3",
        "GATELOG_STREAMS_MAX_AGE_S": "7200",
        "GATELOG_WEBHOOK_ENABLED": "true",
        "PATH": "/bin",
    }
    settings = load(environ=environ, overrides={"streams.replicas": 5, "cluster": None})
    assert settings.cluster == "a"
    assert settings.mode == "kueue"
    assert settings.nats.url == "nats://env:4222"
    assert settings.streams.replicas == 5
    assert settings.streams.create is False
    assert settings.streams.max_age_s == 7200
    assert settings.webhook.enabled is True
    assert settings.webhook.excluded_namespaces == ("x",)
    assert load(file, environ={}).nats.url == "nats://file:4222"


def test_lists_come_from_the_environment_separated_by_commas() -> None:
    settings = load(environ={"GATELOG_WEBHOOK_EXCLUDED_NAMESPACES": "a, b,,c"})
    assert settings.webhook.excluded_namespaces == ("a", "b", "c")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("GATELOG_STREAMS_REPLICAS", "many", "streams.replicas = 'many'"),
        ("GATELOG_STREAMS_REPLICAS", "0", "whole number from 1 to 5"),
        ("GATELOG_MODE", "kue", "mode = 'kue' (from environment variable GATELOG_MODE): "),
        ("GATELOG_MODE", "kue", "one of builtin, kueue"),
        ("GATELOG_CLUSTER", "a.b", "cluster = 'a.b'"),
        ("GATELOG_LOG_LEVEL", "loud", "one of debug, info, warning, error"),
        ("GATELOG_NATS_URI", "x", "no setting is called GATELOG_NATS_URI; did you mean"),
        ("GATELOG_WEBHOOK_ENABLED", "perhaps", "must be true or false"),
        ("GATELOG_STREAMS_REPLICAS", "7", "from 1 to 5"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_its_source_and_what_is_allowed(
    variable: str, value: str, words: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={variable: value})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[nats]\nurll = 'x'\n", "no setting is called nats.urll; did you mean nats.url?"),
        ("[natz]\nurl = 'x'\n", "no setting is called natz"),
        ("nats = 'x'\n", "nats is a section"),
        ("[streams]\nreplicas = '5'\n", "streams.replicas = '5'"),
        ("[streams\n", "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "gatelog.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(file, environ={})
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_name_on_the_command_line_that_does_not_exist_is_refused() -> None:
    words = r"command line: .*nats\.urll; did you mean nats\.url\?"
    with pytest.raises(SettingsError, match=words):
        load(environ={}, overrides={"nats.urll": "x"})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the settings file"):
        load(tmp_path / "none.toml", environ={})


def test_a_directory_or_a_huge_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        load(tmp_path, environ={})
    huge = tmp_path / "huge.toml"
    huge.write_text("# " + "x" * 2_000_000)
    with pytest.raises(SettingsError, match="larger than"):
        load(huge, environ={})


def test_what_became_a_constant_says_so_and_stays_open_to_code() -> None:
    for name, where in (("ingest.page_size", "--set"), ("GATELOG_INGEST_PAGE_SIZE", "")):
        with pytest.raises(SettingsError, match="is no setting any more: its value is always 500"):
            load(environ={} if where else {name: "9"}, overrides={name: 9} if where else None)
    assert "ingest.page_size" not in {doc.path for doc in DOCS}
    assert IngestSettings(page_size=9).page_size == 9


def test_a_secret_is_not_echoed() -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={}, overrides={"database.url": 5})
    assert "database.url = (hidden)" in str(caught.value)


def test_variables_that_the_kubelet_injects_for_services_are_not_settings() -> None:
    environ = {
        "GATELOG_WEBHOOK_PORT": "tcp://10.0.0.1:443",
        "GATELOG_WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "GATELOG_WEBHOOK_SERVICE_PORT": "443",
        "GATELOG_WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "GATELOG_WEBHOOK_PORT_443_TCP": "tcp://10.0.0.1:443",
        "GATELOG_WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
        "GATELOG_API_PORT": "tcp://10.0.0.2:80",
    }
    assert load(environ=environ) == Settings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().nats.url = "x"
    assert msgspec.structs.replace(Settings(), cluster="b").cluster == "b"
