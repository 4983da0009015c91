//! The catalogue in the forms that models are given tools in. Pure.
//!
//! Sources: Anthropic, Messages API, `tools`; OpenAI, Chat Completions, `tools`, and Structured Outputs, "Supported schemas";
//! Model Context Protocol, `tools/list`.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::catalogue::{ToolDefinition, catalogue};

/// A form of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `tools` of Anthropic's Messages API.
    Anthropic,
    /// `tools` of OpenAI's Chat Completions API.
    OpenAi,
    /// The result of MCP's `tools/list`.
    Mcp,
}

impl Format {
    /// Their names.
    pub const WORDS: [&str; 3] = ["mcp", "anthropic", "openai"];

    /// The format of that name.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "anthropic" => Some(Self::Anthropic),
            "openai" => Some(Self::OpenAi),
            "mcp" => Some(Self::Mcp),
            _ => None,
        }
    }

    /// `{"tools": [...]}` with every tool in this form.
    pub fn render(self) -> Result<Value, serde_json::Error> {
        let tools = match self {
            Self::Anthropic => catalogue().iter().map(anthropic).collect(),
            Self::OpenAi => catalogue().iter().map(openai).collect(),
            Self::Mcp => serde_json::to_value(mcp_tools())?,
        };
        Ok(json!({ "tools": tools }))
    }
}

fn anthropic(tool: &ToolDefinition) -> Value {
    json!({
        "name": tool.name.as_str(),
        "description": tool.description,
        "input_schema": tool.input,
    })
}

/// Strict, so that the model's arguments surely fit the schema.
fn openai(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name.as_str(),
            "description": tool.description,
            "parameters": strict(tool.input.clone()),
            "strict": true,
        },
    })
}

/// Strict mode wants every property required; one that may be left out may be null instead.
fn strict(mut schema: Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut names = Vec::new();
    if let Some(properties) = schema["properties"].as_object_mut() {
        for (name, property) in properties {
            if !required.contains(&json!(name)) {
                let kind = property["type"].take();
                property["type"] = json!([kind, "null"]);
            }
            names.push(json!(name));
        }
    }
    schema["required"] = names.into();
    schema
}

/// Every tool as MCP lists it.
pub fn mcp_tools() -> Vec<Tool> {
    catalogue().into_iter().map(mcp_tool).collect()
}

/// One tool as MCP lists it.
pub fn mcp_tool(tool: ToolDefinition) -> Tool {
    let hints = ToolAnnotations::with_title(tool.title)
        .read_only(tool.hints.read_only)
        .destructive(tool.hints.destructive)
        .idempotent(tool.hints.idempotent)
        .open_world(tool.hints.open_world);
    Tool::new(tool.name.as_str(), tool.description, object(tool.input))
        .with_title(tool.title)
        .with_raw_output_schema(object(tool.output))
        .with_annotations(hints)
}

fn object(schema: Value) -> Arc<JsonObject> {
    Arc::new(match schema {
        Value::Object(members) => members,
        // A schema of ours is an object; the tests read them all.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    })
}
