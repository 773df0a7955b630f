//! Requests over HTTP: counted, no faster than is allowed, and given up when nothing moves any more.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use ibid_tls::NamedAuthorities;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls_platform_verifier::Verifier;
use tokio::time::{Instant, Sleep};

use crate::requests::{Counters, Kind};
use crate::silence::Silences;

/// How often it is tried to reach a server that has never answered: its address may be wrong.
pub(crate) const FIRST_TRIES: u32 = 3;
/// What has this address tells programs on a rented machine who they are. Elsewhere nothing has it.
const INSTANCE: &str = "169.254.169.254";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

tokio::task_local! {
    /// What the requests of the present call of the storage meet.
    pub(crate) static CALL: Arc<Call>;
}

/// What the requests of one call of the storage met.
#[derive(Debug, Default)]
pub(crate) struct Call {
    last: Mutex<Option<Met>>,
    requests: AtomicU32,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) enum Met {
    /// With an answer that has this status.
    Status(u16),
    /// It was to ask for credentials, of a service that this machine does not have.
    NoCredentials,
    /// The server has a certificate that is not accepted.
    NotTrusted(ibid_tls::Fault),
    /// Without an answer.
    Nothing {
        why: String,
        /// Nothing was sent, so nothing was done.
        unsent: bool,
        /// More tries are not worth the time.
        hopeless: bool,
    },
}

impl Call {
    pub(crate) fn last(&self) -> Option<Met> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how many requests there were.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    fn note(&self, met: Met) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(met);
    }
}

/// A limit of bytes per second.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace {
            bytes_per_second: bytes_per_second.filter(|rate| *rate > 0),
            free_at: Mutex::default(),
        }
    }

    /// Takes so many bytes; returns when they may pass, if not now.
    fn take(&self, bytes: usize) -> Option<Instant> {
        let rate = self.bytes_per_second?;
        let took = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let now = Instant::now();
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = free_at.unwrap_or(now).max(now) + took;
        *free_at = Some(passes);
        Some(passes)
    }

    /// Takes so many bytes, and sleeps until they may pass.
    pub(crate) fn wait(&self, bytes: usize) {
        if let Some(passes) = self.take(bytes) {
            std::thread::sleep(passes.saturating_duration_since(Instant::now()));
        }
    }
}

/// What all requests to a storage have in common.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) counters: Counters,
    pub(crate) upload: Pace,
    pub(crate) download: Pace,
    /// How long nothing may move.
    pub(crate) stall: Duration,
    pub(crate) silences: Silences,
    answered: AtomicBool,
}

impl Shared {
    pub(crate) fn new(upload: Pace, download: Pace, stall: Duration) -> Shared {
        Shared {
            upload,
            download,
            stall,
            ..Shared::default()
        }
    }
}

/// Makes the clients of a storage, which count together.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) client: Arc<Renewable>,
    /// With little patience, for what tells who this machine is.
    pub(crate) instance: reqwest::Client,
    pub(crate) shared: Arc<Shared>,
}

/// A client whose connections can be left behind.
#[derive(Debug)]
pub(crate) struct Renewable {
    tls: ClientConfig,
    encrypted_only: bool,
    /// The client, and how many there were before it.
    current: Mutex<(u64, reqwest::Client)>,
}

impl Renewable {
    pub(crate) fn new(tls: ClientConfig, encrypted_only: bool) -> reqwest::Result<Renewable> {
        let current = Mutex::new((0, client(&tls, encrypted_only, None)?));
        Ok(Renewable {
            tls,
            encrypted_only,
            current,
        })
    }

    fn get(&self) -> (u64, reqwest::Client) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes new connections from now on, since nothing moves on one of this client. Those that are kept for later may
    /// be as dead: a machine that slept, or a router that forgot them, ends none, and each would cost a stall.
    fn leave(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 == number
            && let Ok(next) = client(&self.tls, self.encrypted_only, None)
        {
            *current = (number + 1, next);
        }
    }
}

/// Returns how servers are reached over TLS: this machine's authorities are trusted, and these certificates.
pub(crate) fn tls(certificates: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Another one may be there already, which will do as well for the clients that are made elsewhere.
    let _ = CryptoProvider::clone(&provider).install_default();
    let verifier = Verifier::new_with_extra_roots(certificates.iter().cloned(), provider.clone())?;
    let verifier = NamedAuthorities::new(Arc::new(verifier), certificates);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Returns a client; one that connects within `timeout`.
pub(crate) fn client(
    tls: &ClientConfig,
    encrypted_only: bool,
    timeout: Option<Duration>,
) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .user_agent(concat!("ibid/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(timeout.unwrap_or(CONNECT_TIMEOUT))
        .pool_idle_timeout(Duration::from_secs(60))
        .redirect(reqwest::redirect::Policy::none())
        .https_only(encrypted_only)
        .tls_backend_preconfigured(tls.clone())
        .build()
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let call = CALL.try_with(Arc::clone).unwrap_or_default();
        call.requests.fetch_add(1, Ordering::Relaxed);
        let again = call.last().is_some_and(|met| !matches!(met, Met::Status(200..300)));
        self.shared
            .counters
            .request(Kind::of(request.method(), request.uri()), again);

        let (parts, body) = request.into_parts();
        let of_instance = parts.uri.host() == Some(INSTANCE);
        let url = parts.uri.to_string();
        let url = url
            .parse()
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let moved = Arc::new(Moved::default());
        if body.content_length() > 0 {
            let shared = self.shared.clone();
            *request.body_mut() = Some(reqwest::Body::wrap(Moving::new(body, shared, Way::Up(moved.clone()))));
        }

        let (number, client) = match of_instance {
            true => (0, self.instance.clone()),
            false => self.client.get(),
        };
        let answer = match select(pin!(client.execute(request)), pin!(moved.stalls(self.shared.stall))).await {
            Either::Left((answer, _)) => answer.map_err(|error| {
                if timed_out(&error) && !error.is_connect() {
                    self.client.leave(number);
                }
                self.no_answer(&call, of_instance, error)
            }),
            Either::Right(((), _)) => {
                self.client.leave(number);
                let why = Stalled(self.shared.stall);
                let found = Met::Nothing {
                    why: why.to_string(),
                    unsent: false,
                    hopeless: self.is_hopeless(&call),
                };
                Err(HttpError::new(self.note(&call, found), why))
            }
        }?;
        self.shared.answered.fetch_or(!of_instance, Ordering::Relaxed);
        match answer.status().as_u16() {
            status @ (408 | 425 | 429 | 500..) => self.shared.silences.failed(format!("the server answers {status}")),
            _ => self.shared.silences.answered(),
        }
        call.note(match of_instance && !answer.status().is_success() {
            true => Met::NoCredentials,
            false => Met::Status(answer.status().as_u16()),
        });
        let answer: http::Response<reqwest::Body> = answer.into();
        let (parts, body) = answer.into_parts();
        if parts.status == StatusCode::NOT_IMPLEMENTED {
            // It would be tried again, as what has failed in a server is.
            return Err(HttpError::new(HttpErrorKind::Unknown, NotImplemented));
        }
        let body = Moving::new(body, self.shared.clone(), Way::Down(call, self.client.clone(), number));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

impl Connector {
    fn no_answer(&self, call: &Call, of_instance: bool, error: reqwest::Error) -> HttpError {
        let found = match ibid_tls::Fault::of_certificate(&error) {
            _ if of_instance => Met::NoCredentials,
            Some(fault) => Met::NotTrusted(fault),
            None => Met::Nothing {
                why: match error.is_connect() && error.is_timeout() {
                    true => format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
                    false => innermost(&error),
                },
                unsent: error.is_connect(),
                hopeless: self.is_hopeless(call),
            },
        };
        HttpError::new(self.note(call, found), error.without_url())
    }

    /// Returns whether the address may be wrong: no answer has ever come, however often it was tried.
    fn is_hopeless(&self, call: &Call) -> bool {
        !self.shared.answered.load(Ordering::Relaxed) && call.requests() >= FIRST_TRIES
    }

    /// Notes that there was no answer. Returns the kind of error, by which what can be done again is told to be: `put`
    /// does it by itself, and its client never tries twice.
    fn note(&self, call: &Call, found: Met) -> HttpErrorKind {
        let again = match &found {
            Met::Nothing { why, hopeless, .. } => {
                self.shared.silences.failed(why.clone());
                !hopeless
            }
            _ => false,
        };
        call.note(found);
        if again {
            HttpErrorKind::Request
        } else {
            HttpErrorKind::Unknown
        }
    }
}

/// Returns whether nothing has moved for so long that the system has given up a connection.
fn timed_out(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let of_system = error.downcast_ref::<std::io::Error>();
        if of_system.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the cause at the bottom, which says most.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    match text.split_once(" (os error ") {
        // Without the number, which says nothing to most.
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

/// The server does not know what was asked of it.
#[derive(Debug)]
struct NotImplemented;

impl fmt::Display for NotImplemented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server does not know this request")
    }
}

impl std::error::Error for NotImplemented {}

/// Nothing has moved for this time.
#[derive(Debug)]
struct Stalled(Duration);

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing moved for {} s", self.0.as_secs_f64())
    }
}

impl std::error::Error for Stalled {}

/// When bytes of a request were taken last, or will be.
#[derive(Debug)]
struct Moved(Mutex<Instant>);

impl Default for Moved {
    fn default() -> Self {
        Moved(Mutex::new(Instant::now()))
    }
}

impl Moved {
    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Ends when nothing has moved for so long.
    async fn stalls(&self, limit: Duration) {
        loop {
            let until = self.last() + limit;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// The way that bytes go.
enum Way {
    Up(Arc<Moved>),
    /// With the client that waits for it.
    Down(Arc<Call>, Arc<Renewable>, u64),
}

/// A body whose bytes are counted, and pass when they may.
struct Moving<B> {
    body: B,
    shared: Arc<Shared>,
    way: Way,
    /// What may pass later.
    held: Option<(Frame<Bytes>, Pin<Box<Sleep>>)>,
    /// When an answer of which nothing comes is given up.
    stalls: Option<Pin<Box<Sleep>>>,
}

impl<B> Moving<B> {
    fn new(body: B, shared: Arc<Shared>, way: Way) -> Self {
        Moving {
            body,
            shared,
            way,
            held: None,
            stalls: None,
        }
    }

    /// Notes when something passes.
    fn passes(&mut self, at: Instant) {
        self.stalls = None;
        self.shared.silences.moved(at);
        if let Way::Up(moved) = &self.way {
            moved.set(at);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Moving<B>
where
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        if let Some((_, passes)) = &mut this.held {
            ready!(passes.as_mut().poll(context));
            return Poll::Ready(this.held.take().map(|(frame, _)| Ok(frame)));
        }
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let pace = match this.way {
                    Way::Up(_) => &this.shared.upload,
                    Way::Down(..) => &this.shared.download,
                };
                this.shared.counters.moved(bytes, matches!(this.way, Way::Up(_)));
                if let Some(passes) = pace.take(bytes) {
                    // What waits for its turn does not stall.
                    this.passes(passes);
                    this.held = Some((frame, Box::pin(tokio::time::sleep_until(passes))));
                    return self.poll_frame(context);
                }
                this.passes(Instant::now());
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                let why = innermost(&error);
                this.note(why);
                Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Request, error))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                if let Way::Down(_, client, number) = &this.way {
                    let limit = this.shared.stall;
                    let stalls = this.stalls.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
                    if stalls.as_mut().poll(context).is_ready() {
                        client.leave(*number);
                        let why = Stalled(limit);
                        this.note(why.to_string());
                        return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Request, why))));
                    }
                }
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        // What is held was taken from the body, and is still to come.
        if let (Some((frame, _)), Some(rest)) = (&self.held, hint.exact()) {
            let held = frame.data_ref().map_or(0, Bytes::len) as u64;
            hint = SizeHint::with_exact(rest + held);
        }
        hint
    }
}

impl<B> Moving<B> {
    /// Notes that an answer broke off.
    fn note(&self, why: String) {
        self.shared.silences.failed(why.clone());
        if let Way::Down(call, ..) = &self.way {
            call.note(Met::Nothing {
                why,
                unsent: false,
                hopeless: false,
            });
        }
    }
}
