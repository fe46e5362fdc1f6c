//! Model servers that run on this machine already.

use serde_json::Value;

use crate::net;

/// Where Ollama, llama-server and LM Studio listen unless told otherwise.
const USUAL_PORTS: [u16; 3] = [11434, 8080, 1234];

/// Parts of the names of models that don't chat.
const NOT_FOR_CHAT: [&str; 5] = ["embed", "rerank", "bge-", "minilm", "whisper"];

/// An OpenAI-compatible server and a model of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to and with `/v1`.
    pub url: String,
    /// The model's id there.
    pub name: String,
}

/// The first usual port with a chat model behind it.
pub fn find() -> Option<Endpoint> {
    USUAL_PORTS.into_iter().find_map(|port| {
        let url = format!("{}/v1", net::local_url(port));
        let name = chat_model(&net::json(&format!("{url}/models"))?)?;
        Some(Endpoint { url, name })
    })
}

/// The first chat model in an answer to `GET /v1/models`.
fn chat_model(answer: &Value) -> Option<String> {
    let models = answer.get("data")?.as_array()?;
    let mut names = models.iter().filter_map(|model| model.get("id")?.as_str());
    names.find(|name| is_for_chat(name)).map(str::to_owned)
}

fn is_for_chat(name: &str) -> bool {
    let name = name.to_lowercase();
    !NOT_FOR_CHAT.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_chat_model_is_taken() {
        let answer = json!({ "object": "list", "data": [
            { "id": "nomic-embed-text:latest" },
            { "id": "text-embedding-BGE-M3" },
            { "id": "qwen2.5:7b" },
            { "id": "llama3.2:3b" },
        ] });
        assert_eq!(chat_model(&answer), Some("qwen2.5:7b".into()));
    }

    #[test]
    fn another_programs_answer_is_no_model_server() {
        for answer in [json!({}), json!([]), json!({ "data": null }), json!({ "data": [] }), json!("ok")] {
            assert_eq!(chat_model(&answer), None, "{answer}");
        }
    }
}
