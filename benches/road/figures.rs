//! Medians, 95th percentiles, and lines of tables.

use std::{fmt, time::Duration};

/// How long the same thing took each time.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What each was longer than something else.
    pub fn beyond(&self, other: Duration) -> Self {
        self.0.iter().map(|time| time.saturating_sub(other)).collect()
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    pub fn p95(&self) -> Duration {
        self.quantile(0.95)
    }

    pub fn min(&self) -> Duration {
        self.quantile(0.0)
    }

    pub fn max(&self) -> Duration {
        self.quantile(1.0)
    }

    fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        let index = (part * (sorted.len() as f64 - 1.0)).round() as usize;
        sorted.get(index).copied().unwrap_or_default()
    }
}

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        Self(times.into_iter().collect())
    }
}

/// A time as a person reads it.
pub struct Shown(pub Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_secs_f64() * 1000.0;
        match ms {
            ..10.0 => write!(f, "{ms:.1} ms"),
            ..1000.0 => write!(f, "{ms:.0} ms"),
            _ => write!(f, "{:.1} s", ms / 1000.0),
        }
    }
}

/// A line of a table: what, median, 95th percentile, how often `unit` goes into the median, and what it is compared with.
pub fn line(what: &str, times: &Times, unit: &Times, compare: &str) {
    let (median, p95) = (times.median(), times.p95());
    let ratio = median.as_secs_f64() / unit.median().as_secs_f64();
    println!("| {what} | {} | {} | {ratio:.2} | {compare} |", Shown(median), Shown(p95));
}
