use serde_json::json;

use super::*;

const CALCULATOR: &str = include_str!("../../../../docs/examples/calculator.yaml");
const WEATHER: &str = include_str!("../../../../docs/examples/weather.yaml");

fn read(text: &str) -> Manifest {
    Manifest::read(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"))
}

#[test]
fn the_calculator_of_slovo_is_a_program() {
    let Manifest { definition, notes } = read(CALCULATOR);
    assert_eq!(notes, [""; 0]);
    assert_eq!(definition.name.as_str(), "example-calculator");
    assert_eq!(definition.safety_flags, ["none"]);
    assert_eq!(definition.asks.memory_bytes, Some(128 << 20));
    assert_eq!(definition.asks.cpu_millis, Some(250));
    assert_eq!(definition.limits.disk, Bytes::mib(10));
    assert!(definition.asks.hosts.is_empty());
    let Recipe::Command(command) = &definition.runs else { panic!("{:?}", definition.runs) };
    assert_eq!(command.argv, ["python3", "calculator.py"]);
    assert_eq!(definition.tags, ["add", "subtract", "multiply", "divide"]);
}

#[test]
fn the_weather_tool_of_slovo_calls_its_api() {
    let Manifest { definition, .. } = read(WEATHER);
    assert_eq!(definition.safety_flags, ["external_call"]);
    assert_eq!(definition.asks.hosts, ["api.weather-service.example.com"]);
    assert_eq!(definition.asks.secrets, ["example-weather"]);
    let Recipe::Http(tool) = &definition.runs else { panic!("{:?}", definition.runs) };
    let args = json!({"action": "get_forecast", "location": "Köln", "days": 2});
    let (operation, request) = tool.request(&args).unwrap();
    let (path, query) = request.url.split_once('?').unwrap();
    assert_eq!(path, "https://api.weather-service.example.com/weather/forecast");
    let mut query: Vec<_> = query.split('&').collect();
    query.sort_unstable();
    assert_eq!(query, ["days=2", "location=K%C3%B6ln"]);
    assert_eq!(operation.credentials[0].secret, "example-weather");
}

/// The template of Slovo's `tool-manifest.schema.json`, with a program.
fn format_b() -> Value {
    json!({
        "name": "web-search", "version": "1.0.0", "description": "Searches.", "author": "me",
        "license": "MIT", "capabilities": ["search"],
        "permissions": {
            "network": {"outbound": true, "allowedHosts": ["api.search.example"]},
            "storage": {"persistent": true, "maxSizeMB": 20},
            "resources": {"maxMemoryMB": 64, "maxCpuPercent": 75},
        },
        "inputs": {"query": {"type": "string", "description": "What", "required": true}},
        "outputs": {"hits": {"type": "array", "description": "Found"}},
        "execution": {"type": "native", "entrypoint": "python3 search.py", "timeout": 10},
    })
}

#[test]
fn the_other_format_of_slovo_is_the_same_model() {
    let Manifest { definition, notes } = read(&format_b().to_string());
    assert_eq!(notes, [""; 0]);
    assert_eq!(definition.asks.storage_bytes, 20 << 20);
    assert_eq!(definition.safety_flags, ["network_access", "side_effect"]);
    assert_eq!(definition.asks.hosts, ["api.search.example"]);
    assert_eq!(definition.limits.memory, Bytes::mib(64));
    assert_eq!(definition.limits.cpus, Cpus(750));
    assert_eq!(definition.asks.wall_ms, Some(10_000));
    let input = definition.input_schema.to_value();
    assert_eq!(input["required"], json!(["query"]));
    assert_eq!(input["properties"]["query"]["description"], "What");
    let Recipe::Command(command) = &definition.runs else { panic!("{:?}", definition.runs) };
    assert_eq!(command.argv, ["python3", "search.py"]);
}

#[test]
fn every_problem_has_its_path() {
    let mut bad = format_b();
    bad["name"] = json!("no spaces");
    bad["version"] = json!("1.0");
    bad["extra"] = json!(1);
    bad["permissions"]["resources"]["maxMemoryMB"] = json!("much");
    bad["permissions"]["network"]["outbound"] = json!("perhaps");
    bad["inputs"]["query"]["required"] = json!("yes");
    bad["execution"]["timeout"] = json!(0);
    bad["execution"]["entrypoint"] = json!([1]);
    bad["capabilities"] = json!([7]);
    let problems = Manifest::read(bad.to_string().as_bytes()).unwrap_err();
    for path in [
        "name: ",
        "version: ",
        "extra: is not a known key",
        "permissions.resources.maxMemoryMB: ",
        "permissions.network.outbound: ",
        "inputs.query.required: ",
        "execution.timeout: ",
        "execution.entrypoint: ",
        "capabilities[0]: ",
    ] {
        assert!(problems.iter().any(|one| one.starts_with(path)), "{path}: {problems:?}");
    }
}

#[test]
fn what_could_not_run_is_refused() {
    for (change, part) in [
        (json!({"execution": null}), "execution: is missing"),
        (json!({"execution": {"type": "docker"}}), "execution.image: is missing"),
        (
            json!({"execution": {"type": "docker", "image": "../x"}}),
            "image: `../x` is not the name",
        ),
        (json!({"execution": {"type": "wasm", "module": "x"}}), "execution.type: `wasm`"),
        (json!({"execution": {"type": "magic"}}), "execution.type: must be"),
        (json!({"execution": {"type": "native"}}), "execution.entrypoint: is missing"),
        (
            json!({"permissions": {"network": {"outbound": true}}}),
            "permissions: asks for the whole internet",
        ),
        (
            json!({"permissions": {"network": {"allowedHosts": ["a.example"]}}}),
            "permissions: hosts are named",
        ),
        (json!({"openapi_spec": {}}), "openapi_spec: import the document"),
        (json!({"inputs": {"q": {"type": "no such type"}}}), "schema of its input"),
    ] {
        let mut manifest = format_b();
        for (name, value) in change.as_object().unwrap() {
            manifest[name] = value.clone();
        }
        let problems = Manifest::read(manifest.to_string().as_bytes()).unwrap_err();
        assert!(problems.iter().any(|one| one.contains(part)), "{part}: {problems:?}");
    }
    assert!(Manifest::read(b"[]").is_err());
    assert!(Manifest::read(b"").is_err());
}

#[test]
fn hostile_manifests_get_a_clear_error() {
    let laughs: String = (0..12)
        .map(|level| {
            let next = if level == 0 { "x".to_owned() } else { format!("*l{}", level - 1) };
            format!("k{level}: &l{level} [{}]\n", vec![next; 10].join(", "))
        })
        .collect();
    let told = Manifest::read(laughs.as_bytes()).unwrap_err();
    assert!(told[0].contains("too many values") || told[0].contains("not YAML"), "{told:?}");
    let mut hosts = format_b();
    for host in ["http://x", "a b", "", "user@x", "x:99999"] {
        hosts["permissions"]["network"]["allowedHosts"] = json!([host]);
        let told = Manifest::read(hosts.to_string().as_bytes()).unwrap_err();
        assert!(told.iter().any(|one| one.contains("host")), "{host}: {told:?}");
    }
    let mut reference = format_b();
    reference["parameters_schema"] = json!({"$ref": "file:///etc/passwd"});
    reference.as_object_mut().unwrap().remove("inputs");
    let told = Manifest::read(reference.to_string().as_bytes()).unwrap_err();
    assert!(told.iter().any(|one| one.contains("$ref") || one.contains("input")), "{told:?}");
    // Letters of other alphabets and invisible characters are no part of a name.
    for name in ["w\u{435}b-search", "web\u{200b}search", "web search", "../web", ""] {
        let mut alike = format_b();
        alike["name"] = json!(name);
        let told = Manifest::read(alike.to_string().as_bytes()).unwrap_err();
        assert!(told.iter().any(|one| one.starts_with("name")), "{name}: {told:?}");
    }
    let mut files = format_b();
    files["execution"]["files"] = json!({"../../etc/passwd": "x"});
    let told = Manifest::read(files.to_string().as_bytes()).unwrap_err();
    assert!(told.iter().any(|one| one.contains("files")), "{told:?}");
}
