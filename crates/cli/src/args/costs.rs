//! What a command may cost.

use clap::Args;

/// Options of commands whose costs can be estimated.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Costs of a server (docs/remote.md)")]
pub(crate) struct CostArgs {
    /// Show what the server would be asked, what that costs and how long it takes, and do nothing
    #[arg(long)]
    pub(crate) estimate: bool,
    /// Do nothing if it would cost more than MONEY, such as 0.50, and stop once it has
    #[arg(long, value_name = "MONEY", value_parser = money)]
    pub(crate) max_cost: Option<f64>,
}

/// Parses an amount in the currency of the prices.
pub(crate) fn money(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('$').unwrap_or(text);
    let is_plain = number.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    match number.parse::<f64>() {
        Ok(amount) if is_plain && amount.is_finite() => Ok(amount),
        _ => Err(format!("expected an amount such as 0.50, found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_an_amount_without_words() {
        assert_eq!((money("0.50"), money("$2"), money(".5")), (Ok(0.5), Ok(2.0), Ok(0.5)));
        for text in ["", "$", "-1", "inf", "nan", "1,50", "1 EUR", "0x1"] {
            assert!(money(text).is_err(), "{text}");
        }
    }
}
