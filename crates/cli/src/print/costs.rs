//! Prints what a command would cost.

use ibid_remote::Requests;
use ibid_repo::{Inexact, PackBytes, Result};
use ibid_terminal::number::{counted, duration, size};
use serde::Serialize;

use super::json::JsonRequests;
use super::{About, Out};
use crate::commands::{Estimated, OfServer, ThawCost};

#[derive(Serialize)]
struct JsonCosts<'a> {
    of: &'static str,
    exact: bool,
    inexact: Vec<&'static str>,
    cost: Option<f64>,
    currency: &'a str,
    seconds: Option<f64>,
    servers: Vec<JsonServer<'a>>,
}

#[derive(Serialize)]
struct JsonServer<'a> {
    location: &'a str,
    would_ask: JsonRequests,
    asked: JsonRequests,
    cost: Option<f64>,
    asked_cost: Option<f64>,
    prices: Option<JsonPrices<'a>>,
    seconds: Option<f64>,
    sent_rate: u64,
    received_rate: u64,
    thaw: Option<JsonThaw>,
}

/// What must be thawed.
#[derive(Serialize)]
pub(super) struct JsonThaw {
    tier: String,
    days: u32,
    frozen_packs: u64,
    frozen_bytes: u64,
    thawing_packs: u64,
    thawing_bytes: u64,
    more: bool,
    cost: Option<f64>,
    hours: Option<f64>,
    looks: Option<u64>,
}

impl JsonThaw {
    pub(super) fn new(thaw: &ThawCost) -> JsonThaw {
        JsonThaw {
            tier: thaw.thaw.tier().to_string(),
            days: thaw.thaw.days(),
            frozen_packs: thaw.frozen.packs,
            frozen_bytes: thaw.frozen.bytes,
            thawing_packs: thaw.thawing.packs,
            thawing_bytes: thaw.thawing.bytes,
            more: thaw.more,
            cost: thaw.cost,
            hours: thaw.hours,
            looks: thaw.looks,
        }
    }
}

#[derive(Serialize)]
struct JsonPrices<'a> {
    name: &'a str,
    date: &'a str,
    source: &'a str,
    currency: &'a str,
    put: f64,
    get: f64,
    head: f64,
    list: f64,
    delete: f64,
    sent: f64,
    received: f64,
    gigabyte: u64,
}

impl<'a> JsonServer<'a> {
    fn new(server: &'a OfServer) -> JsonServer<'a> {
        JsonServer {
            location: &server.location,
            would_ask: JsonRequests::new(server.command),
            asked: JsonRequests::new(server.asked),
            cost: server.cost(),
            asked_cost: server.asked_cost(),
            prices: server.prices.as_ref().map(|prices| JsonPrices {
                name: &prices.name,
                date: &prices.date,
                source: &prices.source,
                currency: &prices.currency,
                put: prices.put,
                get: prices.get,
                head: prices.head,
                list: prices.list,
                delete: prices.delete,
                sent: prices.sent,
                received: prices.received,
                gigabyte: prices.gigabyte,
            }),
            seconds: server.seconds,
            sent_rate: server.rates.sent,
            received_rate: server.rates.received,
            thaw: server.thaw.as_ref().map(JsonThaw::new),
        }
    }
}

/// Prints an estimate of a command.
pub(crate) fn costs(out: &mut Out, about: About, of: &'static str, estimated: &Estimated) -> Result<()> {
    if out.json {
        let body = JsonCosts {
            of,
            exact: estimated.inexact.is_empty(),
            inexact: estimated.inexact.iter().map(|why| name(*why)).collect(),
            cost: estimated.cost(),
            currency: estimated.currency(),
            seconds: estimated.seconds(),
            servers: estimated.servers.iter().map(JsonServer::new).collect(),
        };
        return out.document("estimate", about, &body);
    }
    if estimated.servers.is_empty() {
        return out.line("nothing would be asked of a server: the repository is in a folder of this machine");
    }
    for server in &estimated.servers {
        text(out, server, !estimated.inexact.is_empty(), estimated.servers.len() > 1)?;
    }
    for why in &estimated.inexact {
        out.line(format!("about          {}", reason(*why)))?;
    }
    Ok(())
}

fn text(out: &mut Out, server: &OfServer, about: bool, named: bool) -> Result<()> {
    let about = if about { "about " } else { "" };
    if named {
        out.line(&server.location)?;
    }
    if let Some(thaw) = &server.thaw {
        let currency = server.prices.as_ref().map_or("$", |prices| &prices.currency);
        let what = if thaw.is_asked { "would thaw " } else { "must thaw  " };
        out.line(format!("{what}    {}", thaw_text(thaw, currency)))?;
        out.line(match thaw.looks {
            _ if !thaw.is_asked => "               It does that with --thaw, and can't read them without it".to_owned(),
            Some(looks) => format!(
                "               It asks whether they are there with {} at most, which are counted below",
                counted(looks, "request", "requests")
            ),
            None => "               Not counted: what asks while it waits, for at most 16 packs each time".to_owned(),
        })?;
    }
    out.line(format!("would ask      {about}{}", requests_text(&server.command)))?;
    match (server.cost(), &server.prices) {
        (Some(cost), Some(prices)) => {
            let from = [&prices.name, &prices.date, &prices.source];
            let from: Vec<&str> = from
                .into_iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            let from = match from.is_empty() {
                true => "as --prices says".to_owned(),
                false => format!("as of {}", from.join(", ")),
            };
            out.line(format!(
                "would cost     {about}{}  {from}",
                money(cost, &prices.currency)
            ))?;
        }
        (Some(_), None) => out.line("would cost     nothing: it is another machine, and no service")?,
        (None, _) => out.line("would cost     unknown: this program has no prices of this server. See --prices")?,
    }
    let moved = server.command.sent_bytes.max(server.command.received_bytes);
    match server.seconds {
        Some(seconds) if server.rates.sent + server.rates.received > 0 => out.line(format!(
            "would take     about {} at the rates of earlier commands{}",
            duration((seconds * 1000.0) as u64),
            if server.thaw.is_some() {
                ", once all is thawed"
            } else {
                ""
            }
        ))?,
        Some(_) => out.line("would take     seconds: little is moved")?,
        None => out.line(format!(
            "would take     unknown: no command has moved 4 MiB or more before, and {} are moved",
            size(moved)
        ))?,
    }
    let cost = match (server.asked_cost(), &server.prices) {
        (Some(cost), Some(prices)) => format!(", for {}", money(cost, &prices.currency)),
        _ => String::new(),
    };
    out.line(format!("this estimate  {}{cost}", requests_text(&server.asked)))
}

/// Formats how many requests of each kind there are: `2 to store, 12 to read`.
pub(super) fn kinds_text(requests: &Requests) -> String {
    let kinds = [
        (requests.put, "to store"),
        (requests.get, "to read"),
        (requests.head, "for sizes"),
        (requests.list, "for lists"),
        (requests.delete, "to delete"),
        (requests.thaw, "to thaw"),
        (requests.other, "for other things"),
    ];
    let asked = kinds.into_iter().filter(|(count, _)| *count > 0);
    let asked: Vec<String> = asked.map(|(count, what)| format!("{count} {what}")).collect();
    asked.join(", ")
}

/// Formats what is thawed: `3 packs (96 MiB), bulk, for 7 days: up to 48 hours, $0.01`.
pub(super) fn thaw_text(thaw: &ThawCost, currency: &str) -> String {
    let packs = |packs: PackBytes| format!("{} ({})", counted(packs.packs, "pack", "packs"), size(packs.bytes));
    if thaw.frozen.packs == 0 {
        return format!("nothing more: {} are being thawed already", packs(thaw.thawing));
    }
    let mut text = format!(
        "{}, {}, for {}: ",
        packs(thaw.frozen),
        thaw.thaw.tier(),
        counted(thaw.thaw.days().into(), "day", "days")
    );
    text += &match thaw.hours {
        Some(hours) if hours < 1.0 => "minutes".to_owned(),
        Some(hours) => format!("up to {hours:.0} hours"),
        None => "hours".to_owned(),
    };
    text += &match thaw.cost {
        Some(cost) => format!(", {}", money(cost, currency)),
        None => ", at a price that this program does not know".to_owned(),
    };
    if thaw.thawing.packs > 0 {
        text += &format!("; {} are being thawed already", packs(thaw.thawing));
    }
    if thaw.more {
        text += "; what the deltas in them need is known then, and may have to be thawed, too";
    }
    text
}

/// Formats what a server is asked: `14 requests (2 to store, 12 to read), 384 B sent, 8.9 KiB received`.
pub(crate) fn requests_text(requests: &Requests) -> String {
    format!(
        "{} ({}), {} sent, {} received",
        counted(requests.count(), "request", "requests"),
        kinds_text(requests),
        size(requests.sent_bytes),
        size(requests.received_bytes)
    )
}

/// Formats an amount, with at least two digits that tell something: `$12.30`, `$0.0042`, `0.10 EUR`.
pub(crate) fn money(amount: f64, currency: &str) -> String {
    let mut digits = 2;
    let mut least = 0.1;
    while amount > 0.0 && amount < least && digits < 8 {
        digits += 1;
        least /= 10.0;
    }
    let number = format!("{amount:.digits$}");
    match currency.chars().all(char::is_alphabetic) {
        true => format!("{number} {currency}"),
        false => format!("{currency}{number}"),
    }
}

fn name(why: Inexact) -> &'static str {
    match why {
        Inexact::Bases => "bases",
        Inexact::Again => "again",
        Inexact::Patches => "patches",
        Inexact::Encodes => "encodes",
        Inexact::Stores => "stores",
        Inexact::Archived => "archived",
        Inexact::Waits => "waits",
        Inexact::Damage => "damage",
        _ => "other",
    }
}

fn reason(why: Inexact) -> &'static str {
    match why {
        Inexact::Bases => "deltas are read, and which of their bases come together depends on timing",
        Inexact::Again => "more is read than fits into memory, or is needed several times: some may be read again",
        Inexact::Patches => "files that exist are compared, and at most this much of what differs is read",
        Inexact::Encodes => "chunks are encoded anew, and how small they become is not known before",
        Inexact::Stores => "what is stored depends on what is there, and on how well it compresses",
        Inexact::Archived => "packs with deltas are in an archive, and what these need is known once they are thawed",
        Inexact::Waits => "the longer it waits, the more often it asks whether packs are thawed: at most this often",
        Inexact::Damage => "something is damaged",
        _ => "it depends on more than is known before",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_digits_that_tell_something() {
        let expected = [
            (0.0, "$0.00"),
            (12.3, "$12.30"),
            (0.5, "$0.50"),
            (0.042, "$0.042"),
            (0.000_123, "$0.00012"),
            (1e-12, "$0.00000000"),
        ];
        for (amount, text) in expected {
            assert_eq!(money(amount, "$"), text);
        }
        assert_eq!(money(1.0, "EUR"), "1.00 EUR");
    }
}
