//! What the agent tells over HTTP.

use std::time::Duration;

use super::AgentSetup;

/// How long it may take until the agent tells what is waited for.
const WAIT: Duration = Duration::from_secs(60);

/// Where an agent tells how it is.
pub struct Health(String);

impl Health {
    /// Lets the agent tell it, from its next start on.
    pub fn of(setup: &mut AgentSetup) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        setup.set("HTTP_LISTEN", &free.to_string());
        Self(format!("http://{free}"))
    }

    /// Waits until `/readyz` answers with this status, and gives what it says.
    pub async fn ready(&self, status: u16) -> String {
        let url = format!("{}/readyz", self.0);
        let waited = tokio::time::timeout(WAIT, async {
            loop {
                let answer = reqwest::get(&url).await.unwrap();
                if answer.status() == status {
                    return answer.text().await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("/readyz does not answer {status}"))
    }
}
