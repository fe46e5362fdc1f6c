//! Tells whoever brought an event when it is done with: when the turn on it has ended and its answer is delivered, or when
//! nothing needs to be done. Until then a restart brings it again.

use std::sync::{Arc, Mutex, PoisonError};

type Done = Box<dyn FnOnce() + Send>;

/// Acknowledges an event when its last clone is dropped.
#[derive(Clone)]
pub struct Receipt(Arc<Inner>);

struct Inner(Mutex<Option<Done>>);

impl Receipt {
    /// Calls `done` when the last clone is dropped.
    pub fn new(done: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Inner(Mutex::new(Some(Box::new(done))))))
    }

    /// The event was not taken: nobody is told.
    pub fn void(&self) {
        self.0.take();
    }
}

impl Inner {
    fn take(&self) -> Option<Done> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(done) = self.take() {
            done();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn the_last_clone_acknowledges_once_and_a_void_one_never() {
        let told = Arc::new(AtomicU32::new(0));
        let receipt = || {
            let told = told.clone();
            Receipt::new(move || {
                told.fetch_add(1, Ordering::Relaxed);
            })
        };
        let (first, void) = (receipt(), receipt());
        let second = first.clone();
        drop(first);
        assert_eq!(told.load(Ordering::Relaxed), 0);
        drop(second);
        assert_eq!(told.load(Ordering::Relaxed), 1);
        void.void();
        drop(void);
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}
