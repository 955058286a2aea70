//! The routes of the controller's interface. What is not here is answered with 404 or 405.

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

impl Method {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Shows several tables.
    Snapshot,
    /// Shows one table.
    Table(crate::cluster::view::Shown),
    /// Shows stagings.
    Stages,
    /// Tells the accounting of an instance.
    Account,
    /// Tells what happens.
    Events,
    /// Figures for Prometheus.
    Metrics,
    /// A request of the core, with its word there.
    Ask(&'static str),
    /// An agent says something.
    Tell,
    /// An agent wants its orders.
    Orders,
    /// An agent wants the secrets of an instance.
    Secrets,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Method.
    pub method: Method,
    /// Path; a part in braces stands for anything.
    pub path: &'static str,
    /// What it does.
    pub operation: Operation,
}

const fn route(method: Method, path: &'static str, operation: Operation) -> Route {
    Route { method, path, operation }
}

use Method::*;
use Operation::*;

/// All routes.
pub const ROUTES: &[Route] = {
    use crate::cluster::view::Shown;
    &[
        route(Get, "/metrics", Metrics),
        route(Get, "/v1/events", Events),
        route(Get, "/v1/snapshot", Snapshot),
        route(Get, "/v1/pools", Table(Shown::Pools)),
        route(Get, "/v1/nodes", Table(Shown::Nodes)),
        route(Get, "/v1/sessions", Table(Shown::Sessions)),
        route(Get, "/v1/instances", Table(Shown::Instances)),
        route(Get, "/v1/configurations", Table(Shown::Configurations)),
        route(Get, "/v1/fragments", Table(Shown::Fragments)),
        route(Get, "/v1/namespaces", Table(Shown::Namespaces)),
        route(Get, "/v1/registrations", Table(Shown::Registrations)),
        route(Get, "/v1/activations", Table(Shown::Activations)),
        route(Get, "/v1/stages", Stages),
        route(Post, "/v1/wlm/setup", Ask("setup")),
        route(Post, "/v1/wlm/data_in", Ask("data_in")),
        route(Post, "/v1/wlm/real_size", Ask("real_size")),
        route(Post, "/v1/wlm/paths", Ask("paths")),
        route(Post, "/v1/wlm/pre_run", Ask("pre_run")),
        route(Post, "/v1/wlm/post_run", Ask("post_run")),
        route(Post, "/v1/wlm/data_out", Ask("data_out")),
        route(Post, "/v1/wlm/teardown", Ask("teardown")),
        route(Post, "/v1/wlm/create_persistent", Ask("create_persistent")),
        route(Post, "/v1/sessions", Ask("create_session")),
        route(Delete, "/v1/sessions/{id}", Ask("remove_session")),
        route(Post, "/v1/sessions/{id}/retry", Ask("retry")),
        route(Post, "/v1/instances", Ask("create_instance")),
        route(Patch, "/v1/instances/{id}", Ask("change_instance")),
        route(Get, "/v1/instances/{id}/account", Account),
        route(Post, "/v1/configurations", Ask("create_configuration")),
        route(Patch, "/v1/configurations/{id}", Ask("change_configuration")),
        route(Post, "/v1/activations", Ask("create_activation")),
        route(Delete, "/v1/activations/{id}", Ask("remove_activation")),
        route(Patch, "/v1/registrations/{id}", Ask("no_wait")),
        route(Delete, "/v1/registrations/{id}", Ask("remove_registration")),
        route(Post, "/v1/stages", Ask("stage")),
        route(Delete, "/v1/stages/{id}", Ask("stage_terminate")),
        route(Post, "/v1/pools", Ask("create_pool")),
        route(Patch, "/v1/nodes/{node}", Ask("change_node")),
        route(Delete, "/v1/nodes/{node}", Ask("forget_node")),
        route(Post, "/v1/agents/{node}", Tell),
        route(Get, "/v1/agents/{node}/orders", Orders),
        route(Get, "/v1/agents/{node}/secrets/{instance}", Secrets),
    ]
};
