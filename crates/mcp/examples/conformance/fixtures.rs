//! Tools, prompts and resources that the conformance suite expects, around the product's handler. What is
//! not a fixture goes to the product.
#![expect(deprecated, reason = "the older revision is tested, with all that it has")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ringfence_mcp::Handler;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::{RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// A picture of one red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound of no length.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// The product and the fixtures around it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Fixtures {
    product: Handler,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// States of requests under way, by the opaque name that a client was given.
    states: Mutex<HashMap<String, u32>>,
    next: AtomicU64,
    changes: broadcast::Sender<Changed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Tools,
    Prompts,
}

impl Fixtures {
    pub(crate) fn new(product: Handler) -> Self {
        let (states, next) = (Mutex::default(), AtomicU64::new(1));
        let shared = Shared { states, next, changes: broadcast::Sender::new(16) };
        Self { product, shared: Arc::new(shared) }
    }

    /// A new opaque state for this round.
    fn state(&self, round: u32) -> String {
        let name = format!("state-{}", self.shared.next.fetch_add(1, Ordering::Relaxed));
        let mut states = self.shared.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(name.clone(), round);
        name
    }

    /// The round of a state that came back.
    fn round(&self, state: Option<&String>) -> Result<u32, ErrorData> {
        let Some(state) = state else { return Ok(0) };
        let states = self.shared.states.lock().unwrap_or_else(PoisonError::into_inner);
        let known = states.get(state).copied();
        known.ok_or_else(|| {
            ErrorData::invalid_params("requestState is not one of this server", None)
        })
    }

    fn ask(&self, questions: Value, state: Option<String>) -> Result<CallToolResponse, ErrorData> {
        let questions: InputRequests = of(questions)?;
        Ok(InputRequiredResult::new(Some(questions), state).into())
    }
}

fn of<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn form(message: &str, properties: Value) -> Value {
    let names: Vec<String> =
        properties.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": names},
    })
}

fn elicit(message: &str, properties: Value) -> Value {
    json!({"method": "elicitation/create", "params": form(message, properties)})
}

fn sample(prompt: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": max_tokens},
    })
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn name_question() -> Value {
    json!({"user_name": elicit("What is your name?", json!({"name": {"type": "string"}}))})
}

/// Content that a client gave in answer to a question, if it is an acceptance.
fn accepted<'a>(responses: Option<&'a InputResponses>, question: &str) -> Option<&'a Value> {
    let answer = responses?.get(question)?;
    (answer["action"] == "accept").then(|| &answer["content"])
}

const TOOLS: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_missing_capability",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

fn schema(name: &str) -> JsonObject {
    let argument = match name {
        "test_sampling" => Some("prompt"),
        "test_elicitation" => Some("message"),
        _ => None,
    };
    let schema = match argument {
        Some(argument) => json!({
            "type": "object", "properties": {argument: {"type": "string"}}, "required": [argument],
        }),
        None => json!({"type": "object", "properties": {}}),
    };
    schema.as_object().cloned().unwrap_or_default()
}

impl Fixtures {
    async fn call(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| {
            let fields = request.arguments.as_ref();
            fields.and_then(|fields| fields.get(name)?.as_str()).unwrap_or_default().to_owned()
        };
        let embedded = |uri: &str, media_type: &str, text: &str| {
            ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(media_type))
        };
        let blocks = |blocks| Ok(CallToolResult::success(blocks).into());
        match request.name.as_ref() {
            "test_simple_text" => Ok(text("This is a simple text response for testing.")),
            "test_image_content" => blocks(vec![ContentBlock::image(PNG, "image/png")]),
            "test_audio_content" => blocks(vec![ContentBlock::audio(WAV, "audio/wav")]),
            "test_embedded_resource" => blocks(vec![embedded(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )]),
            "test_multiple_content_types" => blocks(vec![
                ContentBlock::text("Multiple content types test:"),
                ContentBlock::image(PNG, "image/png"),
                embedded(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ]),
            "test_error_handling" => {
                let said = "This tool intentionally returns an error for testing";
                Ok(CallToolResult::error(vec![ContentBlock::text(said)]).into())
            }
            "test_tool_with_logging" => {
                for said in
                    ["Tool execution started", "Tool processing data", "Tool execution completed"]
                {
                    log(context, said).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(text("logged"))
            }
            "test_logging_tool" => {
                // Without a level in the request nothing is logged.
                if context.meta.log_level().is_some() {
                    log(context, "asked for").await;
                }
                Ok(text("done"))
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let progress =
                            ProgressNotificationParam::new(token, done).with_total(100.0);
                        let _ = context.peer.notify_progress(progress).await;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(text("done"))
            }
            "test_sampling" => {
                let asked = of(sample(&argument("prompt"), 100)["params"].clone())?;
                let answer = context.peer.create_message(asked).await.map_err(failed)?;
                let said = serde_json::to_value(&answer.message).unwrap_or_default();
                let said = said["content"]["text"].as_str().unwrap_or_default().to_owned();
                Ok(text(format!("LLM response: {said}")))
            }
            "test_elicitation" => {
                let asked = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                });
                let answer = elicited(context, form(&argument("message"), asked)).await?;
                Ok(text(format!("User response: {answer}")))
            }
            "test_elicitation_sep1034_defaults" => {
                let asked = json!({
                    "name": {"type": "string", "default": "John Doe"},
                    "age": {"type": "integer", "default": 30},
                    "score": {"type": "number", "default": 95.5},
                    "status": {
                        "type": "string", "enum": ["active", "inactive", "pending"],
                        "default": "active",
                    },
                    "verified": {"type": "boolean", "default": true},
                });
                let answer = elicited(context, form("Please confirm", asked)).await?;
                Ok(text(format!("Elicitation completed: {answer}")))
            }
            "test_elicitation_sep1330_enums" => {
                let titled = |word: &str| {
                    json!([
                        {"const": "value1", "title": format!("First {word}")},
                        {"const": "value2", "title": format!("Second {word}")},
                        {"const": "value3", "title": format!("Third {word}")},
                    ])
                };
                let plain = json!(["option1", "option2", "option3"]);
                let asked = json!({
                    "untitledSingle": {"type": "string", "enum": plain},
                    "titledSingle": {"type": "string", "oneOf": titled("Option")},
                    "legacyEnum": {
                        "type": "string", "enum": ["opt1", "opt2", "opt3"],
                        "enumNames": ["Option One", "Option Two", "Option Three"],
                    },
                    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
                    "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
                });
                let answer = elicited(context, form("Please choose", asked)).await?;
                Ok(text(format!("Elicitation completed: {answer}")))
            }
            "test_missing_capability" => {
                let declared = context.client_capabilities().unwrap_or_default();
                match declared.sampling {
                    Some(_) => Ok(text("declared")),
                    None => Err(ErrorData::missing_required_client_capability(
                        ClientCapabilities::builder().enable_sampling().build(),
                    )),
                }
            }
            "test_trigger_tool_change" => self.changed(Changed::Tools),
            "test_trigger_prompt_change" => self.changed(Changed::Prompts),
            _ => self.questions(request, context),
        }
    }

    fn changed(&self, what: Changed) -> Result<CallToolResponse, ErrorData> {
        // There may be no listener.
        let _ = self.shared.changes.send(what);
        Ok(text("changed"))
    }

    /// Tools that need answers of the client first.
    fn questions(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answers = request.input_responses.as_ref();
        let confirm =
            || json!({"confirm": elicit("Please confirm", json!({"ok": {"type": "boolean"}}))});
        match request.name.as_ref() {
            "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
                match accepted(answers, "user_name").and_then(|answer| answer["name"].as_str()) {
                    Some(name) => Ok(text(format!("Hello, {name}!"))),
                    None => self.ask(name_question(), None),
                }
            }
            "test_input_required_result_sampling" => {
                match answers.and_then(|answers| answers.get("capital_question")) {
                    Some(answer) => {
                        Ok(text(answer["content"]["text"].as_str().unwrap_or("answered")))
                    }
                    None => {
                        let asked = sample("What is the capital of France?", 100);
                        self.ask(json!({"capital_question": asked}), None)
                    }
                }
            }
            "test_input_required_result_list_roots" => {
                match answers.and_then(|answers| answers.get("client_roots")) {
                    Some(answer) => Ok(text(format!("Roots: {}", answer["roots"]))),
                    None => self.ask(json!({"client_roots": roots()}), None),
                }
            }
            "test_input_required_result_request_state"
            | "test_input_required_result_tampered_state" => {
                match self.round(request.request_state.as_ref())? {
                    0 => self.ask(confirm(), Some(self.state(1))),
                    _ if accepted(answers, "confirm").is_some() => Ok(text("state-ok")),
                    round => self.ask(confirm(), Some(self.state(round))),
                }
            }
            "test_input_required_result_multiple_inputs" => {
                let asked = || {
                    let mut asked = name_question();
                    asked["greeting"] = sample("Generate a greeting", 50);
                    asked["client_roots"] = roots();
                    asked
                };
                let has_all = answers.is_some_and(|answers| {
                    ["user_name", "greeting", "client_roots"]
                        .iter()
                        .all(|key| answers.contains_key(*key))
                });
                match self.round(request.request_state.as_ref())? {
                    1 if has_all => Ok(text("all answered")),
                    _ => self.ask(asked(), Some(self.state(1))),
                }
            }
            "test_input_required_result_multi_round" => {
                let question = |step: u32, words: &str, name: &str| {
                    let asked = elicit(words, json!({name: {"type": "string"}}));
                    json!({format!("step{step}"): asked})
                };
                match self.round(request.request_state.as_ref())? {
                    2 if accepted(answers, "step2").is_some() => Ok(text("both answered")),
                    1 | 2 if accepted(answers, "step1").is_some() => {
                        let asked = question(2, "Step 2: What is your favorite color?", "color");
                        self.ask(asked, Some(self.state(2)))
                    }
                    _ => {
                        let asked = question(1, "Step 1: What is your name?", "name");
                        self.ask(asked, Some(self.state(1)))
                    }
                }
            }
            "test_input_required_result_capabilities" => {
                let declared = context.client_capabilities().unwrap_or_default();
                let mut asked = json!({});
                if declared.elicitation.is_some() {
                    asked = name_question();
                }
                if declared.sampling.is_some() {
                    asked["greeting"] = sample("Generate a greeting", 50);
                }
                if declared.roots.is_some() {
                    asked["client_roots"] = roots();
                }
                match answers {
                    Some(_) => Ok(text("answered")),
                    None => self.ask(asked, None),
                }
            }
            other => Err(ErrorData::invalid_params(format!("Unknown tool: {other}"), None)),
        }
    }
}

async fn log(context: &RequestContext<RoleServer>, said: &str) {
    let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(said));
    let _ = context.peer.notify_logging_message(message).await;
}

fn failed(error: rmcp::ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

async fn elicited(context: &RequestContext<RoleServer>, asked: Value) -> Result<String, ErrorData> {
    let answer = context.peer.create_elicitation(of(asked)?).await.map_err(failed)?;
    let action = serde_json::to_value(&answer.action).unwrap_or_default();
    let content = answer.content.map_or(Value::Null, |content| json!(content));
    Ok(format!("action={}, content={content}", action.as_str().unwrap_or_default()))
}

fn message(content: ContentBlock) -> PromptMessage {
    PromptMessage::new(Role::User, content)
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.product.get_info();
        let all = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        info.capabilities.completions = all.completions;
        info.capabilities.logging = all.logging;
        info.capabilities.prompts = all.prompts;
        info.capabilities.resources = all.resources;
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.product.list_tools(request, context).await?;
        let fixture = |name: &&'static str| Tool::new(*name, "A fixture", schema(name));
        listed.tools.extend(TOOLS.iter().map(fixture));
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match TOOLS.contains(&request.name.as_ref()) {
            true => self.call(&request, &context).await,
            false => self.product.call_tool(request, context).await,
        }
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.product.list_resources(request, context).await?;
        for (uri, media_type) in [
            ("test://static-text", "text/plain"),
            ("test://static-binary", "image/png"),
            ("test://watched-resource", "text/plain"),
        ] {
            listed.resources.push(Resource::new(uri, uri).with_mime_type(media_type));
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.product.list_resource_templates(request, context).await?;
        let fixture = ResourceTemplate::new("test://template/{id}/data", "template");
        listed.resource_templates.push(fixture.with_mime_type("application/json"));
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let template =
            uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, template) {
            ("test://static-text", _) => {
                let said = "This is the content of the static text resource.";
                ResourceContents::text(said, uri).with_mime_type("text/plain")
            }
            ("test://watched-resource", _) => {
                ResourceContents::text("Watched.", uri).with_mime_type("text/plain")
            }
            ("test://static-binary", _) => {
                ResourceContents::blob(PNG, uri).with_mime_type("image/png")
            }
            (_, Some(id)) => {
                let data =
                    json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            }
            _ => return self.product.read_resource(request, context).await,
        };
        let mut read = ReadResourceResult::new(vec![contents]);
        (read.ttl_ms, read.cache_scope) = (Some(1_000), Some(CacheScope::Public));
        Ok(read.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = |name: &str, arguments: &[&str]| {
            let argument = |name: &&str| PromptArgument::new(*name).with_required(true);
            let arguments: Vec<_> = arguments.iter().map(argument).collect();
            Prompt::new(name, Some("A fixture"), Some(arguments))
        };
        let listed = ListPromptsResult::with_all_items(vec![
            prompt("test_simple_prompt", &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_input_required_result_prompt", &[]),
        ]);
        Ok(listed.with_ttl_ms(1_000).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let fields = request.arguments.as_ref();
            fields.and_then(|fields| fields.get(name)?.as_str()).unwrap_or_default().to_owned()
        };
        let messages = match request.name.as_str() {
            "test_simple_prompt" => {
                vec![message(ContentBlock::text("This is a simple prompt for testing."))]
            }
            "test_prompt_with_arguments" => {
                let (one, two) = (argument("arg1"), argument("arg2"));
                let said = format!("Prompt with arguments: arg1='{one}', arg2='{two}'");
                vec![message(ContentBlock::text(said))]
            }
            "test_prompt_with_embedded_resource" => {
                let said = "Embedded resource content for testing.";
                let resource = ResourceContents::text(said, argument("resourceUri"));
                vec![
                    message(ContentBlock::resource(resource.with_mime_type("text/plain"))),
                    message(ContentBlock::text("Please process the embedded resource above.")),
                ]
            }
            "test_prompt_with_image" => vec![
                message(ContentBlock::image(PNG, "image/png")),
                message(ContentBlock::text("Please analyze the image above.")),
            ],
            "test_input_required_result_prompt" => {
                match accepted(request.input_responses.as_ref(), "user_context") {
                    Some(answer) => vec![message(ContentBlock::text(format!("Context: {answer}")))],
                    None => {
                        let properties = json!({"context": {"type": "string"}});
                        let asked = elicit("What context should the prompt use?", properties);
                        let asked: InputRequests = of(json!({"user_context": asked}))?;
                        return Ok(InputRequiredResult::from_input_requests(asked).into());
                    }
                }
            }
            other => {
                return Err(ErrorData::invalid_params(format!("Unknown prompt: {other}"), None));
            }
        };
        Ok(GetPromptResult::new(messages).into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.product.accepted_subscription_filter(requested)
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let changed = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                changed = changes.recv() => changed,
            };
            let told = match changed {
                Ok(Changed::Tools) => {
                    ServerNotification::ToolListChangedNotification(Default::default())
                }
                Ok(Changed::Prompts) => {
                    ServerNotification::PromptListChangedNotification(Default::default())
                }
                Err(_) => return Ok(()),
            };
            // A kind that the client did not ask for is refused by the library.
            let _ = subscription.sink().send(told).await;
        }
    }
}
