//! `ticker`: a price and how it moved.

use crate::rules::Rule::{Line, List, Number, Web};
use crate::rules::{LINE, SHORT, Shape, aside, optional, required};
use crate::view::{View, join};

/// The most points of the small line beside the price.
const MAX_POINTS: usize = 500;

pub(super) static SHAPE: Shape = Shape::new(&[
    required("symbol", Line(SHORT)),
    optional("name", Line(LINE)),
    required("price", Number),
    optional("currency", Line(SHORT)),
    optional("change", Number),
    optional("percent", Number),
    aside("series", List(0, MAX_POINTS, &Number)),
    optional("url", Web),
]);

pub(super) fn text(block: View<'_>) -> String {
    let symbol = match (block.bold("symbol"), block.line("name")) {
        (Some(symbol), Some(name)) => Some(format!("{symbol} ({name})")),
        (symbol, name) => symbol.or(name),
    };
    let price = join(" ", [block.line("price"), block.line("currency")]);
    let change = join(" / ", [block.line("change").map(signed), block.line("percent").map(|p| signed(p) + " %")]);
    let price = join(" ", [price, change.map(|change| format!("({change})"))]);
    join("\n", [join(": ", [symbol, price]), block.link("url")]).unwrap_or_default()
}

/// A gain with its plus.
fn signed(number: String) -> String {
    if number.starts_with('-') { number } else { format!("+{number}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_ticker_has_a_symbol_and_a_price() {
        is_fine(&json!({"type": "ticker", "symbol": "ABC", "price": "0.53396"}));
        is_fine(&json!({"type": "ticker", "symbol": "ABC", "price": 62.99, "change": -1, "series": [1, 2.5, "3.5"]}));
        for (block, expected) in [
            (
                json!({"type": "ticker"}),
                " ticker: needs symbol and price (takes symbol, name?, price, currency?, change?, percent?, series?, url?)",
            ),
            (
                json!({"type": "ticker", "symbol": "ABC", "price": "$5"}),
                ".price ticker: expected a whole number or a decimal string such as \"62.99\", found \"$5\"",
            ),
            (
                json!({"type": "ticker", "symbol": "ABC", "price": 9_007_199_254_740_992_i64}),
                ".price ticker: 9007199254740992 is outside ±(2^53-1); write it as a string",
            ),
            (
                json!({"type": "ticker", "symbol": "ABC", "price": 1, "series": [1, null]}),
                ".series[1] ticker: expected a whole number or a decimal string such as \"62.99\", found null",
            ),
        ] {
            assert_eq!(fault_of(&block), format!("blocks[0]{expected}"));
        }
    }
}
