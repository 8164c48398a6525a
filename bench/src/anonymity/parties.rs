//! The parties of the relay's measurement, each a process of this program: a relay, a bare reverse
//! proxy, and the gateway that stands behind both.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sotto_protocol::relay::PoolRule;
use sotto_server::{Relay, RelayConfig, RelayGateway, SourceRule};
use sotto_tests::process::Process;
use sotto_wire::ohttp::RESPONSE_MEDIA_TYPE;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Threads of each party's runtime.
const WORKERS: usize = 2;
/// Real pools, with a wait so short that the last requests of a run do not distort the result.
const POOL: PoolRule = PoolRule { min: 16, wait_ms: 10 };
/// The operator of the gateway: the path at the relay.
pub(super) const OPERATOR: &str = "gateway.example";
/// The smallest size class, which holds the answer to every upload.
pub(super) const ANSWER_LEN: usize = 4096;

/// What a process of this program does.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Part {
    /// Takes any request and answers with the same bytes.
    Gateway,
    /// The relay.
    Relay,
    /// Forwards requests and answers as they arrive.
    Proxy,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Relay => "relay",
            Self::Proxy => "proxy",
        }
    }
}

/// A running party.
pub(super) struct Party {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
}

impl Party {
    /// Starts one in front of `gateway`, and waits until it listens.
    pub(super) fn start(part: Part, gateway: Option<SocketAddr>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["party", part.name()]);
        if let Some(gateway) = gateway {
            command.args(["--gateway", &gateway.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let process = Process::from(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse().with_context(|| format!("{part:?} does not start"))?;
        Ok(Self { process, address })
    }
}

/// Runs as a party: prints its address, and ends when its standard input is closed, at the latest
/// when its parent ends.
pub(crate) fn play(part: Part, gateway: Option<SocketAddr>) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(WORKERS).enable_all().build()?;
    let (end, ended) = oneshot::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    let gateway = || gateway.context("no gateway is given");
    runtime.block_on(async {
        tokio::select! {
            _ = ended => Ok(()),
            outcome = async {
                match part {
                    Part::Gateway => serve(answer).await,
                    Part::Relay => relay(gateway()?).await,
                    Part::Proxy => proxy(gateway()?).await,
                }
            } => outcome,
        }
    })
}

async fn relay(gateway: SocketAddr) -> Result<()> {
    let gateway = RelayGateway {
        operator: OPERATOR.parse()?,
        url: format!("http://{gateway}/gateway"),
        pool: None,
    };
    let mut config = RelayConfig::new(any_port(), vec![gateway]);
    config.pool = POOL;
    // Sources are counted, and each may send all requests.
    config.source_limit = Some(SourceRule { max: u32::MAX, ..SourceRule::default() });
    let relay = Relay::bind(config).await?;
    announce(relay.addr())?;
    Ok(relay.run(std::future::pending()).await?)
}

async fn proxy(gateway: SocketAddr) -> Result<()> {
    let uri: Uri = format!("http://{gateway}/gateway").parse()?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    serve(move |mut request| {
        *request.uri_mut() = uri.clone();
        client.request(request)
    })
    .await
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    static ANSWER: [u8; ANSWER_LEN] = [7; ANSWER_LEN];
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    let mut response = Response::new(Full::new(Bytes::from_static(&ANSWER)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(RESPONSE_MEDIA_TYPE));
    Ok(response)
}

/// Serves plain HTTP/1.1 forever.
async fn serve<H, F, B, E>(handler: H) -> Result<()>
where
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let listener = TcpListener::bind(any_port()).await?;
    announce(listener.local_addr()?)?;
    let handler = Arc::new(handler);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            let service = service_fn(move |request| handler(request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn announce(address: SocketAddr) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{address}")?;
    Ok(output.flush()?)
}
