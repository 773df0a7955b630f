//! What goes wrong between a client and the objects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Method, Request, Response};
use s3s::service::S3Service;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Stores an object.
    Put,
    /// Reads an object, or a part of it.
    Get,
    /// Asks for the size of an object.
    Head,
    /// Lists objects.
    List,
    /// Deletes an object.
    Delete,
    /// Has an object thawed.
    Thaw,
}

/// Something that goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer has this status, and nothing is done.
    Refuse(u16),
    /// All is done, and the answer has this status.
    DoneBut(u16),
    /// All is done, and the connection ends without an answer.
    LoseAnswer,
    /// The connection ends at once; what was asked is done after this time.
    Late(Duration),
    /// The answer ends after half of its bytes.
    CutAnswer,
    /// Nothing moves for this time, then the connection ends.
    Stall(Duration),
    /// The request waits for this time.
    Delay(Duration),
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<(Operation, Fault)>,
    /// Whatever the request.
    always: Option<Fault>,
    /// State of the generator, and how many of 1000 requests something happens to.
    weather: Option<(u64, u64)>,
    asked: Vec<Operation>,
}

/// What goes wrong, and what was asked.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Plan>);

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next request that does this meet a fault, after those that were given before.
    pub fn next(&self, operation: Operation, fault: Fault) {
        self.lock().next.push_back((operation, fault));
    }

    /// Lets every request meet a fault; `None` ends it.
    pub fn always(&self, fault: Option<Fault>) {
        self.lock().always = fault;
    }

    /// Lets so many of 1000 requests meet some fault that passes, as a seed has it; 0 ends it.
    pub fn weather(&self, seed: u64, of_1000: u64) {
        self.lock().weather = Some((seed, of_1000)).filter(|_| of_1000 > 0);
    }

    /// Returns what was asked since the last call.
    #[must_use]
    pub fn asked(&self) -> Vec<Operation> {
        std::mem::take(&mut self.lock().asked)
    }

    fn meet(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.lock();
        plan.asked.push(operation);
        if let Some(at) = plan.next.iter().position(|(of, _)| *of == operation) {
            return plan.next.remove(at).map(|(_, fault)| fault);
        }
        if let Some((state, of_1000)) = &mut plan.weather {
            let mut below = |limit: u64| {
                *state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (*state >> 33) % limit
            };
            if below(1000) < *of_1000 {
                return Some(match below(7) {
                    0 => Fault::Refuse(503),
                    1 => Fault::Refuse(500),
                    2 => Fault::DoneBut(503),
                    3 => Fault::LoseAnswer,
                    4 => Fault::Late(Duration::from_millis(below(80))),
                    5 => Fault::CutAnswer,
                    _ => Fault::Delay(Duration::from_millis(below(50))),
                });
            }
        }
        plan.always
    }
}

/// The connection is to end.
#[derive(Debug)]
pub(crate) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is broken")
    }
}

impl std::error::Error for Broken {}

/// An answer that is whole in memory, of which only a part may be sent.
pub(crate) struct Answer {
    bytes: Full<Bytes>,
    announced: u64,
    cut: bool,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match Pin::new(&mut self.bytes).poll_frame(context) {
            Poll::Ready(None) if self.cut => Poll::Ready(Some(Err(Broken))),
            frame => frame.map_err(|never: Infallible| match never {}),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}

fn operation(request: &Request<Incoming>) -> Option<Operation> {
    let lists = request.uri().query().is_some_and(|query| {
        let is_list = |part: &str| part == "list-type=2" || part.trim_end_matches('=') == "versions";
        query.split('&').any(is_list)
    });
    let restores = request
        .uri()
        .query()
        .is_some_and(|query| query.trim_end_matches('=') == "restore");
    match *request.method() {
        Method::PUT => Some(Operation::Put),
        Method::GET if lists => Some(Operation::List),
        Method::GET => Some(Operation::Get),
        Method::HEAD => Some(Operation::Head),
        Method::DELETE => Some(Operation::Delete),
        Method::POST if restores => Some(Operation::Thaw),
        _ => None,
    }
}

/// Answers a request, or meets its fault.
pub(crate) async fn answer(
    service: S3Service,
    faults: Arc<Faults>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Broken> {
    let fault = operation(&request).and_then(|operation| faults.meet(operation));
    let is_head = request.method() == Method::HEAD;
    // Whole, so that what is done does not hang on how the client goes on.
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let request = Request::from_parts(parts, s3s::Body::from(body));
    let done = async move {
        let answer = service.call(request).await.map_err(|_| Broken)?;
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.map_err(|_| Broken)?.to_bytes();
        Ok((parts, bytes))
    };
    let status = |status: u16| {
        let name = match status {
            503 => "SlowDown",
            409 => "ConditionalRequestConflict",
            403 => "AccessDenied",
            400 => "ExpiredToken",
            _ => "InternalError",
        };
        let text = format!("<Error><Code>{name}</Code><Message>It was asked for.</Message></Error>");
        let bytes = if is_head { Bytes::new() } else { Bytes::from(text) };
        let answer = Answer {
            announced: bytes.len() as u64,
            bytes: Full::new(bytes),
            cut: false,
        };
        Ok(Response::builder()
            .status(status)
            .body(answer)
            .expect("a status of HTTP"))
    };
    match fault {
        Some(Fault::Refuse(code)) => return status(code),
        Some(Fault::DoneBut(code)) => {
            done.await?;
            return status(code);
        }
        Some(Fault::LoseAnswer) => {
            done.await?;
            return Err(Broken);
        }
        Some(Fault::Late(after)) => {
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let _ = done.await;
            });
            return Err(Broken);
        }
        Some(Fault::Stall(time)) => {
            tokio::time::sleep(time).await;
            return Err(Broken);
        }
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::CutAnswer) | None => {}
    }
    let (parts, bytes) = done.await?;
    let cut = fault == Some(Fault::CutAnswer) && bytes.len() > 1;
    let announced = bytes.len() as u64;
    let sent = if cut { bytes.slice(..bytes.len() / 2) } else { bytes };
    let answer = Answer {
        bytes: Full::new(sent),
        announced,
        cut,
    };
    Ok(Response::from_parts(parts, answer))
}
