//! What a payload costs: read, checked and written, beside what serde_json alone takes to read and write the same bytes.
//!
//! `cargo bench -p mxblocks`. The two are measured in the same run, since only their ratio says something.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mxblocks::Rich;
use serde_json::{Value, json};

/// As many blocks as fit, of the types that have most to check.
const BLOCKS: [&str; 8] = ["buttons", "table", "chart", "cards", "gallery", "form", "tracker", "weather"];

fn payload() -> String {
    let block = |kind: &&str| -> Value {
        let path = format!("{}/fixtures/{kind}.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    json!({"v": 1, "blocks": BLOCKS.iter().map(block).collect::<Vec<_>>()}).to_string()
}

fn measure(criterion: &mut Criterion) {
    let json = payload();
    let mut group = criterion.benchmark_group("payload of 8 blocks");
    group.throughput(Throughput::Bytes(json.len() as u64));
    group.bench_function("serde_json: read and write", |bencher| {
        bencher.iter(|| {
            let value: Value = serde_json::from_str(black_box(&json)).unwrap();
            serde_json::to_string(&value).unwrap()
        });
    });
    group.bench_function("mxblocks: read, check and write", |bencher| {
        bencher.iter(|| {
            let rich = Rich::parse(black_box(&json)).unwrap();
            serde_json::to_string(&rich).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, measure);
criterion_main!(benches);
