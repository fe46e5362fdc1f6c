//! A homeserver, an agent, people and a model to test with; `benches/road` uses them too.

#![allow(dead_code, unused_imports, reason = "tests and benches use different parts")]

mod agent;
mod appservice;
mod browser;
mod checked;
mod health;
mod homeserver;
mod hook;
mod model;
mod person;
mod proxy;
mod talk;

pub use agent::{Agent, AgentSetup};
pub use appservice::Appservice;
pub use browser::{Browser, Visitor};
pub use checked::Checked;
pub use health::Health;
pub use homeserver::{Account, Homeserver};
pub use hook::{Got, Hook};
pub use model::{ModelServer, calls, fail, say};
pub use person::{Person, Seen};
pub use proxy::{Proxy, Trouble, Which};
pub use talk::Talk;
