//! What a command asks of servers before it does it, and what that costs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibid_remote::{Prices, Requests, ThawPrice, thaw_hours};
use ibid_repo::{ArchivedPacks, Estimate, Inexact, PackBytes, Rates, Repository};
use ibid_storage::{Thaw, ThawTier};
use ibid_terminal::number::counted;
use ibid_terminal::path_text;
use toml::de::{DeTable, DeValue};

use super::open::{Context, Opened};
use super::place::Place;
use super::watch::Watch;
use crate::args::{CostArgs, ThawArgs};
use crate::failure::{Failure, Result};
use crate::print::{self, Verb, money};

/// Bytes from which on a command tells how fast a server sends or receives.
const RATE_FROM: u64 = 4 << 20;
/// Bytes of the longest file of prices.
const PRICES_MAX: u64 = 64 << 10;

/// What to do about costs.
pub(crate) struct Costs {
    shows: bool,
    max: Option<f64>,
    /// Prices that were given, for all servers.
    given: Option<Prices>,
    /// What the command must have thawed first.
    thaw: Option<ThawCost>,
}

/// What it takes to have packs thawed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThawCost {
    pub(crate) thaw: Thaw,
    /// Packs that are asked for, and those that are in an archive and were asked for before.
    pub(crate) frozen: PackBytes,
    pub(crate) thawing: PackBytes,
    /// Whether more may be needed once these are thawed.
    pub(crate) more: bool,
    /// Whether the command is to have them thawed: else it refuses.
    pub(crate) is_asked: bool,
    /// What it costs, if that is known.
    pub(crate) cost: Option<f64>,
    /// How long it takes, as a rule, if that is known.
    pub(crate) hours: Option<f64>,
    /// How often it is asked at most whether packs are there, if that is known.
    pub(crate) looks: Option<u64>,
}

impl ThawCost {
    /// Nothing must be thawed.
    pub(crate) fn nothing(thaw: Thaw) -> ThawCost {
        ThawCost {
            thaw,
            frozen: PackBytes::default(),
            thawing: PackBytes::default(),
            more: false,
            is_asked: true,
            cost: Some(0.0),
            hours: None,
            looks: Some(0),
        }
    }
}

/// An estimate of a command.
pub(crate) struct Estimated {
    /// One for each server or other machine that it uses.
    pub(crate) servers: Vec<OfServer>,
    /// Why it is not exact.
    pub(crate) inexact: BTreeSet<Inexact>,
}

/// What a command asks of one server.
pub(crate) struct OfServer {
    pub(crate) location: String,
    /// What the command asks.
    pub(crate) command: Requests,
    /// What the estimate has asked.
    pub(crate) asked: Requests,
    pub(crate) prices: Option<Prices>,
    /// Whether requests cost nothing, as with another machine.
    pub(crate) is_free: bool,
    /// What must be thawed first.
    pub(crate) thaw: Option<ThawCost>,
    /// Seconds for the bytes of the command; none if it is not known how fast they move.
    pub(crate) seconds: Option<f64>,
    pub(crate) rates: Rates,
}

impl OfServer {
    /// Returns what requests cost, if that is known.
    fn cost_of(&self, requests: &Requests) -> Option<f64> {
        match &self.prices {
            _ if self.is_free => Some(0.0),
            Some(prices) => Some(prices.cost(requests)),
            None => None,
        }
    }

    /// Returns what the command costs.
    pub(crate) fn cost(&self) -> Option<f64> {
        let thaw = self.thaw.map_or(Some(0.0), |thaw| thaw.cost);
        Some(self.cost_of(&self.command)? + thaw?)
    }

    /// Returns what the estimate has cost.
    pub(crate) fn asked_cost(&self) -> Option<f64> {
        self.cost_of(&self.asked)
    }
}

impl Estimated {
    /// Returns the currency of the prices.
    pub(crate) fn currency(&self) -> &str {
        let mut prices = self.servers.iter().filter_map(|server| server.prices.as_ref());
        prices.next().map_or("$", |prices| &prices.currency)
    }

    /// Returns what the command costs, if that is known of all servers.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.servers.iter().map(OfServer::cost).sum()
    }

    /// Returns what the estimate has cost.
    pub(crate) fn asked_cost(&self) -> Option<f64> {
        self.servers.iter().map(OfServer::asked_cost).sum()
    }

    /// Returns for how long the bytes of the command move.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.servers.iter().map(|server| server.seconds).sum()
    }
}

impl Costs {
    /// Returns what to do as these options say.
    pub(crate) fn new(context: &Context, args: &CostArgs) -> Result<Costs> {
        let given = context.global.network.prices.as_deref().map(read_prices).transpose()?;
        Ok(Costs {
            shows: args.estimate,
            max: args.max_cost,
            given,
            thaw: None,
        })
    }

    /// Returns what stops a command that can't be estimated.
    pub(crate) fn limit(context: &Context, max: Option<f64>) -> Result<Costs> {
        Costs::new(
            context,
            &CostArgs {
                estimate: false,
                max_cost: max,
            },
        )
    }

    /// Returns whether the command is to be estimated.
    pub(crate) fn is_wanted(&self) -> bool {
        self.shows || self.max.is_some()
    }

    fn prices(&self, place: &Place) -> Option<Prices> {
        match place {
            Place::Server(server) => self.given.clone().or_else(|| server.prices()),
            Place::Past(past) => self.given.clone().or_else(|| past.present().prices()),
            Place::Folder(_) | Place::Host(_) => None,
        }
    }

    /// Notes what a command must have thawed first, and returns it; `None` if that is nothing.
    ///
    /// # Errors
    /// The service does not thaw in that tier.
    pub(crate) fn thaw(&mut self, opened: &Opened, packs: &ArchivedPacks, args: &ThawArgs) -> Result<Option<ThawCost>> {
        let (thaw, is_asked) = (args.how(), args.thaw);
        let (frozen, thawing) = (packs.frozen(), packs.thawing());
        self.thaw = None;
        if frozen.packs + thawing.packs == 0 {
            return Ok(None);
        }
        let prices = self.prices(&opened.place);
        let (mut cost, mut hours) = (Some(0.0), Some(0.0_f64));
        for (class, of_class) in packs.frozen_by_class() {
            let takes = thaw_hours(&class, thaw.tier());
            if takes.is_none() && thaw.tier() == ThawTier::Expedited {
                return Err(Failure::Usage(format!(
                    "what is in {class} is thawed as bulk or standard, and not as {}",
                    thaw.tier()
                )));
            }
            hours = hours.zip(takes).map(|(most, hours)| most.max(hours));
            let price = prices
                .as_ref()
                .and_then(|prices| prices.thaw(&class, of_class.packs, of_class.bytes, thaw));
            cost = cost.zip(price).map(|(sum, price)| sum + price);
        }
        let takes = packs.classes_waiting().map(|class| thaw_hours(class, thaw.tier()));
        let looks = takes.reduce(|most, hours| most.zip(hours).map(|(most, hours)| most.max(hours)));
        let looks = looks.flatten().map(|hours| looks_of(hours, args.poll(), packs));
        self.thaw = Some(ThawCost {
            thaw,
            frozen,
            thawing,
            more: packs.may_need_more(),
            is_asked,
            cost,
            // How much of that has passed is not told.
            hours: hours.filter(|_| frozen.packs > 0),
            looks,
        });
        Ok(self.thaw)
    }

    /// Returns the currency of the prices of a place.
    pub(crate) fn currency(&self, opened: &Opened) -> String {
        let prices = self.prices(&opened.place);
        prices.map_or_else(|| "$".to_owned(), |prices| prices.currency)
    }

    /// Refuses to have more thawed than may be spent, with what was spent before.
    pub(crate) fn allow_more(&self, opened: &Opened, spent: f64) -> Result<()> {
        let (Some(max), Some(thaw)) = (self.max, &self.thaw) else {
            return Ok(());
        };
        let Some(cost) = thaw.cost else {
            return Err(no_prices(&opened.place.location()));
        };
        if spent + cost <= max {
            return Ok(());
        }
        let currency = self.currency(opened);
        let amount = |amount| money(amount, &currency);
        Err(Failure::Fatal(format!(
            "no more was thawed: {} more would cost {}, after {} that were spent, and --max-cost is {}",
            counted(thaw.frozen.packs, "pack", "packs"),
            amount(cost),
            amount(spent),
            amount(max)
        )))
    }

    /// Estimates a command, if that is wanted: `rehearse` runs it in a rehearsal of the repository. Returns whether to
    /// go on with the command itself.
    ///
    /// # Errors
    /// It would cost too much.
    pub(crate) fn begin(
        &self,
        context: &mut Context,
        of: &'static str,
        opened: &Opened,
        rehearse: impl FnOnce(&mut Context, &Repository) -> Result<()>,
    ) -> Result<bool> {
        if !self.is_wanted() {
            return Ok(true);
        }
        let rehearsal = opened.repository.rehearsing()?;
        let watch = Watch::start(Verb::Look, context.global.quiet)?;
        let rehearsed = rehearse(context, &rehearsal.watched_by(&watch.monitor));
        watch.finish();
        rehearsed?;
        let estimated = self.of(context, &[(opened, &rehearsal)]);
        self.end(context, of, opened, &estimated)
    }

    /// Shows an estimate, or compares it with the limit. Returns whether to go on with the command itself.
    pub(crate) fn end(
        &self,
        context: &mut Context,
        of: &'static str,
        opened: &Opened,
        estimated: &Estimated,
    ) -> Result<bool> {
        if self.shows {
            print::costs(&mut context.out, opened.about, of, estimated)?;
            return Ok(false);
        }
        self.allow(estimated).map(|()| true)
    }

    /// Returns the estimate of a command that was rehearsed in these repositories. What must be thawed is in the first.
    pub(crate) fn of(&self, context: &Context, rehearsed: &[(&Opened, &Repository)]) -> Estimated {
        let mut estimated = Estimated {
            servers: Vec::new(),
            inexact: BTreeSet::new(),
        };
        for (number, (opened, rehearsal)) in rehearsed.iter().enumerate() {
            let thaw = self.thaw.filter(|_| number == 0);
            let estimate = rehearsal.estimate();
            estimated.inexact.extend(&estimate.inexact);
            let Some(asked) = opened.place.requests() else {
                continue;
            };
            let mut command = with(asked, &estimate);
            if let Some(thaw) = thaw.filter(|thaw| thaw.is_asked) {
                command.head += thaw.looks.unwrap_or(0);
                estimated.inexact.insert(Inexact::Waits);
            }
            command.thaw += thaw.map_or(0, |thaw| thaw.frozen.packs);
            let network = &context.global.network;
            let mut rates = opened.repository.rates();
            let limited = |rate: u64, limit: Option<u64>| limit.map_or(rate, |limit| rate.min(limit));
            rates.sent = limited(rates.sent, network.limit_upload);
            rates.received = limited(rates.received, network.limit_download);
            estimated.servers.push(OfServer {
                location: opened.place.location(),
                seconds: seconds(&command, rates),
                command,
                asked,
                prices: self.prices(&opened.place),
                is_free: matches!(opened.place, Place::Host(_)),
                thaw,
                rates,
            });
        }
        estimated
    }

    /// Refuses to begin with what costs too much.
    fn allow(&self, estimated: &Estimated) -> Result<()> {
        let Some(max) = self.max else { return Ok(()) };
        let (Some(cost), Some(asked)) = (estimated.cost(), estimated.asked_cost()) else {
            return Err(self.unknown(estimated));
        };
        if cost + asked <= max {
            return Ok(());
        }
        let amount = |amount| money(amount, estimated.currency());
        let about = if estimated.inexact.is_empty() { "" } else { "about " };
        let command = estimated.servers.iter().map(|server| server.command);
        let command = command.reduce(Requests::and).unwrap_or_default();
        Err(Failure::Fatal(format!(
            "nothing was done: it would cost {about}{}, and {} more were spent to find that out, but --max-cost is {}. \
             It would make {}",
            amount(cost),
            amount(asked),
            amount(max),
            print::requests_text(&command),
        )))
    }

    fn unknown(&self, estimated: &Estimated) -> Failure {
        let mut unknown = estimated.servers.iter().filter(|server| server.cost().is_none());
        let location = unknown
            .next()
            .map(|server| server.location.as_str())
            .unwrap_or_default();
        no_prices(location)
    }

    /// Refuses a limit of costs where these are not known.
    pub(crate) fn know(&self, opened: &Opened) -> Result<()> {
        match (&opened.place, self.max) {
            (Place::Server(_) | Place::Past(_), Some(_)) if self.prices(&opened.place).is_none() => {
                Err(no_prices(&opened.place.location()))
            }
            _ => Ok(()),
        }
    }

    /// Returns what tells that the command has cost too much.
    pub(crate) fn meter(&self, context: &Context) -> Option<Meter> {
        self.meter_after(context, 0.0)
    }

    /// Returns the same, if so much was spent for other things than requests.
    pub(crate) fn meter_after(&self, context: &Context, spent: f64) -> Option<Meter> {
        let places = context.servers.places();
        let places = places.into_iter().filter_map(|place| {
            let prices = self.prices(&place)?;
            Some((place, prices))
        });
        Some(Meter {
            max: self.max?,
            before: spent,
            places: Arc::new(places.collect()),
        })
    }
}

/// Returns how often it is asked at most whether packs are there, in a wait of so many hours.
fn looks_of(hours: f64, poll: Duration, packs: &ArchivedPacks) -> u64 {
    let times = (hours * 3600.0 / poll.as_secs_f64()).ceil() as u64 + 1;
    // Each look is about some; then each pack is asked for in the last look, in the plan that follows, and before the
    // command begins.
    times * packs.waiting().packs.min(ArchivedPacks::LOOKED_AT as u64) + 3 * packs.all().packs
}

/// Tells whether a command has cost too much.
#[derive(Clone)]
pub(crate) struct Meter {
    max: f64,
    /// What was spent for other things than requests.
    before: f64,
    places: Arc<Vec<(Place, Prices)>>,
}

impl Meter {
    fn spent(&self) -> f64 {
        let spent = self.places.iter().map(|(place, prices)| {
            let requests = place.requests().unwrap_or_default();
            prices.cost(&requests)
        });
        self.before + spent.sum::<f64>()
    }

    /// Returns whether to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.spent() > self.max
    }

    /// Says of a command that was stopped for its costs that it was.
    pub(crate) fn explain(meter: &Option<Meter>, failure: Failure) -> Failure {
        match (meter, failure) {
            (Some(meter), Failure::Interrupted(left)) if meter.is_over() => {
                let currency = meter.places.first().map_or("$", |(_, prices)| &prices.currency);
                Failure::Fatal(format!(
                    "stopped after {}, because --max-cost is {}; {left}",
                    money(meter.spent(), currency),
                    money(meter.max, currency)
                ))
            }
            (_, failure) => failure,
        }
    }
}

fn no_prices(location: &str) -> Failure {
    Failure::Usage(format!(
        "what the server of {location} charges is not known, so --max-cost can't be held. Give its prices with \
         --prices FILE"
    ))
}

/// Returns the requests of a command, of which these were made and the estimate tells the rest.
fn with(made: Requests, estimate: &Estimate) -> Requests {
    let mut command = made;
    command.put += estimate.puts;
    command.get = (command.get + estimate.gets).saturating_sub(estimate.own_gets);
    command.head += estimate.sizes;
    command.delete += estimate.deletes;
    command.sent_bytes += estimate.sent;
    command.received_bytes = (command.received_bytes + estimate.received).saturating_sub(estimate.own_received);
    command.again = 0;
    command
}

/// Returns how long the bytes of requests move at these rates.
fn seconds(requests: &Requests, rates: Rates) -> Option<f64> {
    let of = |bytes: u64, rate: u64| match (bytes, rate) {
        // The latency of requests counts for more than that.
        (..RATE_FROM, 0) => Some(0.0),
        (_, 0) => None,
        _ => Some(bytes as f64 / rate as f64),
    };
    Some(of(requests.sent_bytes, rates.sent)? + of(requests.received_bytes, rates.received)?)
}

/// Remembers how fast the server of a repository was, if a command that began then has moved much.
pub(crate) fn remember_rates(opened: &Opened, begun: Instant) {
    let Some(requests) = opened.place.requests() else {
        return;
    };
    let took = begun.elapsed().as_secs_f64();
    let mut rates = opened.repository.rates();
    let per_second = |bytes: u64| (bytes as f64 / took.max(0.001)) as u64;
    let mut is_new = false;
    for (bytes, rate) in [
        (requests.sent_bytes, &mut rates.sent),
        (requests.received_bytes, &mut rates.received),
    ] {
        if bytes >= RATE_FROM {
            *rate = per_second(bytes);
            is_new = true;
        }
    }
    if is_new {
        opened.repository.remember_rates(rates);
    }
}

/// Reads prices from a file.
fn read_prices(path: &Path) -> Result<Prices> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|source| Failure::local("read", path, source))?;
    let mut text = String::new();
    let read = file.take(PRICES_MAX + 1).read_to_string(&mut text);
    read.map_err(|source| Failure::local("read", path, source))?;
    let wrong = |why: String| Failure::Usage(format!("{} has no prices: {why}", path_text(path)));
    if text.len() as u64 > PRICES_MAX {
        return Err(wrong("it has more than 64 KiB".to_owned()));
    }
    prices(&text).map_err(wrong)
}

/// What a price of thawing is.
const THAW_PRICE: &str = "expected a list of such as { class = \"DEEP_ARCHIVE\", tier = \"bulk\", requests = 0.025, \
                          gigabyte = 0.0025 }";

/// Parses what it costs to thaw objects of a class in a tier.
fn thaw_price(value: &DeValue<'_>) -> Result<ThawPrice, String> {
    let wrong = || format!("thaw: {THAW_PRICE}");
    let table = value.as_table().filter(|table| table.len() == 4).ok_or_else(wrong)?;
    let text = |key| {
        table
            .get(key)
            .and_then(|value| value.get_ref().as_str())
            .ok_or_else(wrong)
    };
    let number = |key| {
        let number = match table.get(key).map(|value| value.get_ref()) {
            Some(DeValue::Integer(number)) => number.as_str().parse().ok(),
            Some(DeValue::Float(number)) => number.as_str().parse().ok(),
            _ => None,
        };
        number
            .filter(|number: &f64| number.is_finite() && *number >= 0.0)
            .ok_or_else(wrong)
    };
    let tier = text("tier")?.parse().map_err(|_| wrong())?;
    Ok(ThawPrice::new(
        text("class")?,
        tier,
        number("requests")?,
        number("gigabyte")?,
    ))
}

/// Parses prices.
fn prices(text: &str) -> Result<Prices, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let mut prices = Prices::default();
    let mut any = false;
    for (key, value) in table.get_ref() {
        let key: &str = key.get_ref();
        let number = || {
            let number = match value.get_ref() {
                DeValue::Integer(number) => number.as_str().parse().ok(),
                DeValue::Float(number) => number.as_str().parse().ok(),
                _ => None,
            };
            number
                .filter(|number: &f64| number.is_finite() && *number >= 0.0)
                .ok_or_else(|| format!("{key}: expected a number from 0 on, such as 0.005"))
        };
        let text = || {
            let text = value.get_ref().as_str();
            let text = text.filter(|text| !text.chars().any(char::is_control));
            text.map(str::to_owned)
                .ok_or_else(|| format!("{key}: expected a text in quotation marks, in one line"))
        };
        match key {
            "name" => prices.name = text()?,
            "date" => prices.date = text()?,
            "source" => prices.source = text()?,
            "currency" => prices.currency = text()?,
            "gigabyte" => match number()? {
                bytes if bytes >= 1.0 => prices.gigabyte = bytes as u64,
                _ => return Err("gigabyte: expected the bytes of one, such as 1000000000".to_owned()),
            },
            "thaw" => {
                let list = value.get_ref().as_array().into_iter().flat_map(|list| list.iter());
                prices.thaw = list
                    .map(|price| thaw_price(price.get_ref()))
                    .collect::<Result<_, _>>()?;
                if prices.thaw.is_empty() {
                    return Err(format!("thaw: {THAW_PRICE}"));
                }
            }
            "stored" => prices.stored = number()?,
            "put" | "get" | "head" | "list" | "delete" | "sent" | "received" => {
                any = true;
                let price = match key {
                    "put" => &mut prices.put,
                    "get" => &mut prices.get,
                    "head" => &mut prices.head,
                    "list" => &mut prices.list,
                    "delete" => &mut prices.delete,
                    "sent" => &mut prices.sent,
                    _ => &mut prices.received,
                };
                *price = number()?;
            }
            _ => {
                return Err(format!(
                    "there is no {key}. There are put, get, head, list and delete, for 1000 requests; sent and \
                     received, for a gigabyte; stored, for a gigabyte in a month; thaw; gigabyte, currency, name, date \
                     and source"
                ));
            }
        }
    }
    match any {
        true => Ok(prices),
        false => Err("expected at least one of put, get, head, list, delete, sent and received".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_and_what_is_no_price_is_named() {
        let read = prices("name = 'NAS'\ncurrency = 'EUR'\nput = 1\nreceived = 0.05\ngigabyte = 1073741824").unwrap();
        assert_eq!((read.name.as_str(), read.currency.as_str()), ("NAS", "EUR"));
        assert_eq!((read.put, read.received, read.gigabyte), (1.0, 0.05, 1 << 30));
        for (text, named) in [
            ("", "expected at least one of put"),
            ("put = -1", "put: expected a number from 0 on"),
            ("put = 'much'", "put: expected a number"),
            ("puts = 1", "there is no puts"),
            ("put = 1\nname = \"a\\u001bb\"", "name: expected a text"),
            ("put = 1\ngigabyte = 0", "gigabyte: expected the bytes"),
            ("put = inf", "put: expected a number"),
            ("put", ""),
        ] {
            let error = prices(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
