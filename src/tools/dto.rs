//! What the paths of the tools read.

use serde::Deserialize;
use utoipa::IntoParams;

use crate::openapi::schemas::ToolFormat;

/// `GET /v1/tools`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListTools {
    /// `mcp` unless told otherwise.
    #[param(value_type = ToolFormat, required = false)]
    pub format: Option<String>,
}
