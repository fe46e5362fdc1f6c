//! Several attempts at one step: back-off on the first endpoint, then the fallback.
//!
//! - Only an error that may pass is tried again on the same endpoint; the fallback is asked after any error but one: a
//!   request that is too long goes back to the caller, who can shorten it.
//! - What a failed attempt had already said stays until the next one speaks; then it is made void by
//!   [`Delta::Restart`].
//! - A server that asks for a longer wait than [`Retry::max`] is not waited for.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rand::RngExt as _;

use super::{Delta, DeltaStream, Model, ModelError, Request};

/// How often and at what intervals one endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts at one step, the first included.
    pub attempts: NonZeroU32,
    /// The wait after the first attempt; it doubles with each further one.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Retry {
    /// The wait after so many failed attempts: at least half of what doubling gives, the rest by chance, so that many
    /// turns do not come back at one moment. `None` where the server asks for more than may be waited.
    fn wait(&self, failed: u32, asked: Option<Duration>) -> Option<Duration> {
        let asked = asked.unwrap_or_default();
        if asked > self.max {
            return None;
        }
        let doubled = self.first.saturating_mul(2u32.saturating_pow(failed.saturating_sub(1))).min(self.max);
        let jittered = doubled.mul_f64(rand::rng().random_range(0.5..=1.0));
        Some(jittered.max(asked))
    }
}

/// A model with what stands behind it.
pub struct Chain {
    links: Vec<Link>,
}

#[derive(Clone)]
struct Link {
    model: Arc<dyn Model>,
    retry: Retry,
}

impl Chain {
    /// A model that is asked again as `retry` says.
    #[must_use]
    pub fn new(model: Arc<dyn Model>, retry: Retry) -> Self {
        Self { links: vec![Link { model, retry }] }
    }

    /// Adds a model that is asked when those before it have failed.
    #[must_use]
    pub fn fallback(mut self, model: Arc<dyn Model>, retry: Retry) -> Self {
        self.links.push(Link { model, retry });
        self
    }
}

impl Model for Chain {
    fn stream(&self, request: Request) -> DeltaStream {
        let links = self.links.clone();
        let deltas = async_stream::try_stream! {
            // Whether words of a failed attempt stand there.
            let mut void = false;
            let mut last = None;
            for Link { model, retry } in links {
                for attempt in 1..=retry.attempts.get() {
                    let mut spoke = false;
                    let mut step = model.stream(request.clone());
                    let error = loop {
                        match step.next().await {
                            Some(Ok(delta)) => {
                                if void && !spoke {
                                    yield Delta::Restart;
                                }
                                spoke = true;
                                let done = matches!(delta, Delta::Done { .. });
                                yield delta;
                                if done {
                                    return;
                                }
                            }
                            Some(Err(error)) => break error,
                            None => break ModelError::Cut,
                        }
                    };
                    // The connection must not stay open while we wait.
                    drop(step);
                    void |= spoke;
                    let again = error.retryable() && attempt < retry.attempts.get();
                    let wait = again.then(|| retry.wait(attempt, error.retry_after())).flatten();
                    tracing::warn!(model = model.name(), attempt, %error, ?wait, "a model's step failed");
                    if matches!(error, ModelError::TooLong { .. }) {
                        Err(error)?;
                        return;
                    }
                    last = Some(error);
                    let Some(wait) = wait else { break };
                    tokio::time::sleep(wait).await;
                }
            }
            Err(last.unwrap_or(ModelError::Cut))?;
        };
        deltas.boxed()
    }

    fn name(&self) -> String {
        self.links.iter().map(|link| link.model.name()).collect::<Vec<_>>().join(", then ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::scripted::{Script, Scripted};
    use super::super::{Finish, testing};
    use super::*;
    use tokio::time::Instant;

    const RETRY: Retry =
        Retry { attempts: NonZeroU32::new(3).unwrap(), first: Duration::from_secs(1), max: Duration::from_secs(10) };

    fn model(script: &str) -> Arc<Scripted> {
        Arc::new(Scripted::new(script.parse::<Script>().unwrap()))
    }

    fn done() -> Result<Delta, ModelError> {
        Ok(Delta::Done { finish: Finish::Stop, usage: None })
    }

    fn text(text: &str) -> Result<Delta, ModelError> {
        Ok(Delta::Text(text.into()))
    }

    async fn run(chain: Chain) -> (Vec<Result<Delta, ModelError>>, Duration) {
        let start = Instant::now();
        let items = chain.stream(testing::conversation()).collect().await;
        (items, start.elapsed())
    }

    fn assert_between(wait: Duration, low: f64, high: f64) {
        // The paused clock moves by whole milliseconds.
        assert!((low..=high + 0.01).contains(&wait.as_secs_f64()), "{wait:?} is not in {low}..={high}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_model_is_asked_again_after_growing_waits() {
        let primary = model(r#"{"steps": [{"fail": {"status": 500}}, {"fail": {"status": 429}}, {"say": "Hi"}]}"#);
        let (items, waited) = run(Chain::new(primary.clone(), RETRY)).await;
        assert_eq!(items, [text("Hi"), done()]);
        assert_between(waited, 1.5, 3.0);
        assert_eq!(primary.requests(), vec![testing::conversation(); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_stay_below_the_longest_one() {
        let retry = Retry { attempts: NonZeroU32::new(8).unwrap(), ..RETRY };
        let primary = model(r#"{"steps": [], "otherwise": {"fail": {"status": 500}}}"#);
        let (items, waited) = run(Chain::new(primary.clone(), retry)).await;
        assert_eq!(items.len(), 1);
        assert_between(waited, (1. + 2. + 4. + 8. + 30.) / 2., 1. + 2. + 4. + 8. + 30.);
        assert_eq!(primary.requests().len(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_that_the_server_asks_for_is_kept() {
        let primary = model(r#"{"steps": [{"fail": {"status": 429, "retry_after_ms": 7000}}, {"say": "Hi"}]}"#);
        let (items, waited) = run(Chain::new(primary, RETRY)).await;
        assert_eq!(items, [text("Hi"), done()]);
        assert_between(waited, 7., 7.);
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_wait_goes_to_the_fallback_at_once() {
        let primary = model(r#"{"steps": [{"fail": {"status": 429, "retry_after_ms": 10001}}]}"#);
        let chain = Chain::new(primary.clone(), RETRY).fallback(model(r#"{"steps": [{"say": "Hi"}]}"#), RETRY);
        assert_eq!(run(chain).await, (vec![text("Hi"), done()], Duration::ZERO));
        assert_eq!(primary.requests().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_failed_attempt_said_is_void_once_the_next_one_speaks() {
        let primary =
            model(r#"{"steps": [{"say": "Hel", "fail": "cut"}, {"fail": {"status": 500}}, {"say": "Hello"}]}"#);
        let (items, _) = run(Chain::new(primary, RETRY)).await;
        assert_eq!(items, [text("Hel"), Ok(Delta::Restart), text("Hello"), done()]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_words_stay_when_all_attempts_fail() {
        let primary = model(r#"{"steps": [{"say": "Hel", "fail": "cut"}], "otherwise": {"fail": {"status": 503}}}"#);
        let fallback = model(r#"{"steps": [], "otherwise": {"fail": {"status": 401}}}"#);
        let (items, _) = run(Chain::new(primary.clone(), RETRY).fallback(fallback.clone(), RETRY)).await;
        let refused = ModelError::Refused { status: 401, text: "scripted".into() };
        assert_eq!(items, [text("Hel"), Err(refused)]);
        assert_eq!((primary.requests().len(), fallback.requests().len()), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_is_not_repeated_but_goes_to_the_fallback() {
        let primary = model(r#"{"steps": [{"fail": {"status": 401}}]}"#);
        let chain = Chain::new(primary.clone(), RETRY).fallback(model(r#"{"steps": [{"say": "Hi"}]}"#), RETRY);
        assert_eq!(run(chain).await, (vec![text("Hi"), done()], Duration::ZERO));
        assert_eq!(primary.requests().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_too_long_goes_back_to_the_caller() {
        let primary = model(r#"{"steps": [{"fail": {"status": 413}}]}"#);
        let fallback = model(r#"{"steps": []}"#);
        let (items, _) = run(Chain::new(primary, RETRY).fallback(fallback.clone(), RETRY)).await;
        assert_eq!(items, [Err(ModelError::TooLong { text: "scripted".into() })]);
        assert!(fallback.requests().is_empty());
    }

    #[test]
    fn its_name_names_all() {
        let chain = Chain::new(model(r#"{"steps": []}"#), RETRY).fallback(model(r#"{"steps": []}"#), RETRY);
        assert_eq!(chain.name(), "scripted, then scripted");
    }
}
