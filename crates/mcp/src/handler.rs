//! Methods of the protocol, each answered by a module of its own.

use std::{borrow::Cow, sync::Arc};

use ringfence_edge::{Edge, identity::Caller};
use ringfence_engine::Engine;
use ringfence_types::{Principal, Scope};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, GetTaskResult,
        Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
};

use crate::{
    McpConfig,
    http::base_url,
    tools::{self, Visible},
};

/// Text for models: what this server is and how to go on when a call does not end at once.
const INSTRUCTIONS: &str = "Every tool of this server runs in a sandbox, after policy allowed the \
call, and leaves a signed receipt. A call may be held until a person approves it: the result then says \
so, with a link and a call id; call `call_result` with that id to get the result later, and do not \
repeat the call. For a computer of your own, make one with `sandbox_create`, run programs in it with \
`sandbox_exec` and change its files with `sandbox_files`.";

/// The product behind the protocol. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handler(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) edge: Edge,
    pub(crate) engine: Engine,
    pub(crate) config: McpConfig,
    pub(crate) visible: Visible,
}

/// The client of one request, with what it understands.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) caller: Caller,
    /// Address of this server as the client wrote it.
    pub(crate) base_url: String,
    /// Whether it understands tasks.
    pub(crate) knows_tasks: bool,
    /// Whether it can show a link to a person.
    pub(crate) shows_links: bool,
    /// Whether it speaks revision 2026-07-28 or newer.
    pub(crate) is_stateless: bool,
}

impl Client {
    pub(crate) fn of(
        context: &RequestContext<RoleServer>,
        config: &McpConfig,
    ) -> Result<Self, ErrorData> {
        let parts = context.extensions.get::<http::request::Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
        let (Some(parts), Some(caller)) = (parts, caller) else {
            return Err(ErrorData::internal_error("the request has no key", None));
        };
        let capabilities = context.client_capabilities().unwrap_or_default();
        let version = context.protocol_version().unwrap_or_default();
        Ok(Self {
            caller: caller.clone(),
            base_url: base_url(&parts.headers, config.has_tls),
            knows_tasks: capabilities.supports_tasks(),
            shows_links: capabilities.elicitation.is_some_and(|known| known.url.is_some()),
            is_stateless: version.as_str() >= ProtocolVersion::V_2026_07_28.as_str(),
        })
    }

    pub(crate) fn principal(&self) -> &Principal {
        self.caller.principal()
    }

    /// Whether it may see a call of its tenant: its own, or any with scope `read`.
    pub(crate) fn may_see(&self, call: &ringfence_types::Call) -> bool {
        let who = self.principal();
        call.asked.key == who.key || who.scopes.allow(Scope::Read)
    }
}

impl Handler {
    /// The product behind this edge.
    pub fn new(edge: Edge, config: McpConfig) -> Self {
        let engine = edge.engine().clone();
        Self(Arc::new(Shared { edge, engine, config, visible: Visible::default() }))
    }

    /// The client of a request, noted for people.
    pub(crate) fn client(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let client = Client::of(context, &self.0.config)?;
        let info = context.client_info();
        let (name, version) = match &info {
            Some(info) => (info.name.as_str(), info.version.as_str()),
            None => ("unknown", ""),
        };
        let revision = context.protocol_version().unwrap_or_default().to_string();
        self.0.engine.note_mcp_client(client.principal(), name, version, &revision);
        Ok(client)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_tasks()
            .build();
        let info = Implementation::new("ringfence", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(info).with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let client = self.client(&context)?;
        self.0.list_tools(&client, request).await
    }

    /// For the headers that a tool's schema asks for (`x-mcp-header`).
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.engine.tools().get(name, None).map(|entry| tools::tool(entry))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.client(&context)?;
        self.0.call_tool(&client, request, &context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let client = self.client(&context)?;
        self.0.list_resources(&client, request).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(crate::resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let client = self.client(&context)?;
        self.0.read_resource(&client, &request.uri).await.map(Into::into)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = self.client(&context)?;
        self.0.get_task(&client, &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.client(&context)?;
        self.0.update_task(&client, &request.task_id, &request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.client(&context)?;
        self.0.cancel_task(&client, &request.task_id).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // Intersected with the capabilities above by the library.
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.0.follow_tools(&subscription).await;
        Ok(())
    }
}
