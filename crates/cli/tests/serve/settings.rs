//! Settings from flags, environment and file.

use serde_json::Value;

use crate::support::{Place, command, ran, shown};

#[test]
fn all_problems_of_all_places_are_named_at_once() {
    let place = Place::new();
    std::fs::create_dir(place.data()).unwrap();
    let file = place.data().join("ringfence.toml");
    std::fs::write(&file, "lisen = \"x\"\n[calls]\nrunning = 0\n").unwrap();
    let data = shown(&place.data());
    let mut serve = command(&["serve", "--data", &data, "--listen", "everywhere"]);
    let told = ran(serve.env("RINGFENCE_LOG_LEVLE", "x").env("RINGFENCE_STOP_GRACE", "soon"));
    told.failed(
        2,
        &[
            "error: 5 problems",
            "`lisen` is no setting; did you mean `listen`?",
            "calls.running (from ",
            "RINGFENCE_LOG_LEVLE means nothing; did you mean RINGFENCE_LOG_LEVEL?",
            "stop_grace (from RINGFENCE_STOP_GRACE): `soon`",
            "listen (from --listen): `everywhere`",
            "hint: ",
        ],
    );
}

#[test]
fn a_flag_covers_a_variable_which_covers_the_file_which_covers_the_default() {
    let place = Place::new();
    let file = place.path("own.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1\"\nthreads = 3\n[log]\nlevel = \"warn\"\n")
        .unwrap();
    let (data, file) = (shown(&place.data()), shown(&file));
    let mut show = command(&["config", "show", "--json", "--data", &data, "--config", &file]);
    show.args(["--listen", "127.0.0.1:3"]);
    show.env("RINGFENCE_LISTEN", "127.0.0.1:2").env("RINGFENCE_THREADS", "4");
    show.env("TOOL_EXECUTOR_TIMEOUT", "60");
    let shown = ran(&mut show).worked().stdout;
    let rows: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).expect("it is listed");
        let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
        (text("value"), text("source"))
    };
    let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(of("listen"), pair("127.0.0.1:3", "--listen"));
    assert_eq!(of("threads"), pair("4", "RINGFENCE_THREADS"));
    assert_eq!(of("log.level"), pair("warn", &file));
    assert_eq!(of("calls.longest"), pair("60", "TOOL_EXECUTOR_TIMEOUT"));
    assert_eq!(of("log.format"), pair("text", "default"));
    assert_eq!(of("data"), pair(&data, "--data"));
}

#[test]
fn the_reference_names_every_setting_and_every_older_variable() {
    let reference = include_str!("../../../../docs/configuration.md");
    let shown = ran(&mut command(&["config", "show", "--json"])).worked().stdout;
    for line in shown.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let name = row["name"].as_str().expect("a name");
        let about = row["about"].as_str().expect("a meaning");
        let told = format!("| `{name}` | {about} |");
        assert!(reference.contains(&told), "{told}");
    }
    for older in [
        "CODE_EXEC_HOST",
        "CODE_EXEC_PORT",
        "CODE_EXEC_SKILLS_DIRECTORY",
        "CODE_EXEC_LOG_LEVEL",
        "CODE_EXEC_EMBEDDING_MODEL",
        "CODE_EXEC_MAX_EXECUTION_TIME",
        "TOOL_EXECUTOR_TIMEOUT",
        "TOOL_EXECUTOR_MAX_CONCURRENT",
        "KAFKA_BOOTSTRAP_SERVERS",
        "KAFKA_SECURITY_PROTOCOL",
        "KAFKA_SASL_MECHANISM",
        "KAFKA_SASL_USERNAME",
        "KAFKA_SASL_PASSWORD",
        "TOOL_REQUESTS_TOPIC",
        "TOOL_RESULTS_TOPIC",
        "TOOL_EXECUTOR_GROUP",
        "REDIS_URL",
        "CODE_EXEC_REDIS_URL",
        "POLICY_REQUEUE_PREFIX",
        "SESSION_CACHE_TTL_SECONDS",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
    ] {
        assert!(reference.contains(&format!("| `{older}` |")), "{older}");
    }
}

#[test]
fn a_word_that_is_no_level_is_refused() {
    let show = |level: &str| ran(&mut command(&["config", "show", "--log-level", level]));
    for bad in ["verbose", "WARNING", "info,noise", "ringfence_engine=loud", ""] {
        show(bad).failed(2, &["log.level (from --log-level)", "is not a level"]);
    }
    for good in ["warn", "INFO,ringfence_engine=debug", "off"] {
        show(good).worked();
    }
}

#[test]
fn the_operator_sees_what_the_running_server_uses_without_its_secrets() {
    let place = Place::new();
    let server = place.serve_with(&[
        ("RINGFENCE_CALLS_RUNNING", "7"),
        ("RINGFENCE_WEBHOOK_URLS", "http://127.0.0.1:9/hook"),
        ("RINGFENCE_WEBHOOK_SECRET", "a secret between two services"),
    ]);
    // The client's own environment and file say something else.
    let mut show = command(&["config", "show", "--server", "--json", "--data", &server.data]);
    let told = ran(show.env("RINGFENCE_CALLS_RUNNING", "9")).worked().stdout;
    let rows: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).expect("it is listed");
    assert_eq!(of("calls.running")["value"], "7");
    assert_eq!(of("calls.running")["source"], "RINGFENCE_CALLS_RUNNING");
    assert_eq!(of("webhook.secret")["value"], "***");
    assert_eq!(of("data")["value"], server.data.as_str());
    let local = ran(&mut command(&["config", "show", "--json"])).worked().stdout;
    assert_eq!(local.lines().count(), rows.len(), "the same settings");
    let table = server.client(&["config", "show", "--server"]).worked().stdout;
    assert!(table.contains("calls.running") && !table.contains("a secret between"), "{table}");
    // Admins of other tenants have no business with it.
    let args = ["key", "create", "boss", "--scope", "admin", "--tenant", "other"];
    let other = server.client(&args).worked().stdout;
    let mut show = command(&["config", "show", "--server", "--data", &server.data]);
    ran(show.env("RINGFENCE_KEY", other.trim())).failed(2, &["error: ", "operator"]);
}
