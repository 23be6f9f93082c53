//! Which of several hosts, and of their addresses, a connection goes to: the first that can be used.
//!
//! They are tried in the order in which they are named. One that refuses is followed at once. One that is silent is not waited for: its attempt
//! goes on while the next one is made. Otherwise a host without power would keep everybody from its successor.

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, TryFutureExt};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_postgres::Error;
use tokio_postgres::config::{Config, Host, LoadBalanceHosts, TargetSessionAttrs};

/// For how long one is waited for alone, at most: as long as a handshake with TLS and a password takes far away.
const ALONE: Duration = Duration::from_millis(500);

/// The first connection that `connect` makes to any of the server's hosts, each of which it is given by itself. The error is none if nobody
/// said anything within `limit`.
pub(crate) async fn reach<T, F>(
    server: &Config,
    limit: Duration,
    connect: impl Fn(Config) -> F,
) -> Result<T, Option<Error>>
where
    F: Future<Output = Result<T, Error>>,
{
    let (hosts, over, connect) = (apart(server), sleep(limit).shared(), &connect);
    let alone = ALONE.min(limit / 2 / u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1));
    let by_address = |address| within(over.clone(), connect(address).map_err(Some));
    let by_host = |host| {
        let (by_address, found) = (&by_address, within(over.clone(), addresses(host).map(Ok)));
        async move { first_address(found.await?, alone, by_address).await }
    };
    first(hosts.into_iter().map(by_host), alone).await
}

/// By the first of a host's addresses. Of several, the one that takes writes is meant. Where none does, one that can be read is better than none.
async fn first_address<T, F>(
    found: Vec<Config>,
    alone: Duration,
    connect: impl Fn(Config) -> F,
) -> Result<T, Option<Error>>
where
    F: Future<Output = Result<T, Option<Error>>>,
{
    let are_alike = |host: &Config| host.get_target_session_attrs() == TargetSessionAttrs::Any;
    if found.len() <= 1 || !found.iter().all(are_alike) {
        return first(found.into_iter().map(connect), alone).await;
    }
    let is_any_readable = AtomicBool::new(false);
    let to_write = found.iter().map(|host| {
        let mut host = host.clone();
        host.target_session_attrs(TargetSessionAttrs::ReadWrite);
        connect(host).inspect_err(|error| {
            is_any_readable.fetch_or(error.as_ref().is_some_and(is_read_only), Ordering::Relaxed);
        })
    });
    match first(to_write, alone).await {
        Err(_) if is_any_readable.load(Ordering::Relaxed) => {
            first(found.into_iter().map(connect), alone).await
        }
        made => made,
    }
}

/// Whether the driver left a server because that takes no writes. The system's errors have a number.
fn is_read_only(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| {
        cause.kind() == io::ErrorKind::PermissionDenied && cause.raw_os_error().is_none()
    })
}

/// What it comes to before all is over.
async fn within<T>(
    over: impl Future<Output = ()>,
    attempt: impl Future<Output = Result<T, Option<Error>>>,
) -> Result<T, Option<Error>> {
    tokio::select! {
        made = attempt => made,
        () = over => Err(None),
    }
}

/// The first attempt that succeeds. The next one begins when one has failed, or none has ended for a while. If all fail, the last of those
/// errors is told that say more than that nobody answered.
async fn first<T, F>(attempts: impl Iterator<Item = F>, alone: Duration) -> Result<T, Option<Error>>
where
    F: Future<Output = Result<T, Option<Error>>>,
{
    let mut waiting = attempts.enumerate();
    let mut under_way = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        if let Some((place, attempt)) = waiting.next() {
            under_way.push(async move { (place, attempt.await) });
        }
        match timeout(alone, under_way.next()).await {
            Ok(Some((_, Ok(made)))) => return Ok(made),
            Ok(Some((place, Err(error)))) => failures.push((place, error)),
            Ok(None) => break,
            Err(_) => {}
        }
    }
    failures.sort_by_key(|(place, _)| *place);
    let last = failures.into_iter().map(|(_, error)| error).max_by_key(|error| error.as_ref().map(is_answer));
    Err(last.flatten())
}

/// Whether it says more than that nobody answered in time.
fn is_answer(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_none_or(|cause| cause.kind() != io::ErrorKind::TimedOut)
}

/// The hosts by themselves, in the order in which they are tried. Numbers that don't match are left to the driver, which says so.
fn apart(server: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (server.get_hosts(), server.get_hostaddrs(), server.get_ports());
    let matches = |count: usize| count == hosts.len();
    let are_numbers_right =
        (addresses.is_empty() || matches(addresses.len())) && (ports.len() <= 1 || matches(ports.len()));
    if hosts.len() <= 1 || !are_numbers_right {
        return vec![server.clone()];
    }
    let alone = |(place, host): (usize, &Host)| {
        let mut config = without_hosts(server);
        match host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(path) => config.host_path(path),
        };
        if let Some(address) = addresses.get(place) {
            config.hostaddr(*address);
        }
        if let Some(port) = ports.get(place).or(ports.first()) {
            config.port(*port);
        }
        config
    };
    in_turn(hosts.iter().enumerate().map(alone).collect(), server)
}

/// A host by each of the addresses that its name has. A name that is not found is left to the driver, which says so.
async fn addresses(host: Config) -> Vec<Config> {
    let ([Host::Tcp(name)], []) = (host.get_hosts(), host.get_hostaddrs()) else { return vec![host] };
    let port = host.get_ports().first().copied().unwrap_or(5432);
    let Ok(found) = tokio::net::lookup_host((name.as_str(), port)).await else { return vec![host] };
    let by_address = |address: std::net::SocketAddr| {
        let mut config = host.clone();
        config.hostaddr(address.ip());
        config
    };
    let found: Vec<Config> = found.map(by_address).collect();
    if found.is_empty() { vec![host] } else { in_turn(found, &host) }
}

/// In the order given, or in any, as the caller wants it.
fn in_turn(mut all: Vec<Config>, server: &Config) -> Vec<Config> {
    if server.get_load_balance_hosts() == LoadBalanceHosts::Random {
        // The standard library draws its keys at random.
        all.sort_by_cached_key(|_| RandomState::new().hash_one(0));
    }
    all
}

/// All else that a configuration says: the driver's has no way to take a host out.
fn without_hosts(server: &Config) -> Config {
    let mut config = Config::new();
    config
        .ssl_mode(server.get_ssl_mode())
        .ssl_negotiation(server.get_ssl_negotiation())
        .keepalives(server.get_keepalives())
        .keepalives_idle(server.get_keepalives_idle())
        .target_session_attrs(server.get_target_session_attrs())
        .channel_binding(server.get_channel_binding())
        .load_balance_hosts(server.get_load_balance_hosts());
    server.get_user().map(|user| config.user(user));
    server.get_password().map(|password| config.password(password));
    server.get_dbname().map(|name| config.dbname(name));
    server.get_options().map(|options| config.options(options));
    server.get_application_name().map(|name| config.application_name(name));
    server.get_connect_timeout().map(|limit| config.connect_timeout(*limit));
    server.get_tcp_user_timeout().map(|limit| config.tcp_user_timeout(*limit));
    server.get_keepalives_interval().map(|interval| config.keepalives_interval(interval));
    server.get_keepalives_retries().map(|retries| config.keepalives_retries(retries));
    config
}

#[cfg(test)]
mod tests {
    //! Plan: each host is tried with all that the configuration says, and in its order; a refusal is followed at once, silence soon, also
    //! that of one of a name's addresses; of these, one that takes writes is used, and only without one a standby; what was said is told rather than silence.
    use super::*;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_postgres::NoTls;

    const LONG: Duration = Duration::from_secs(30);

    fn parsed(url: &str) -> Config {
        url.parse().unwrap()
    }

    fn refusal() -> Error {
        "a=b".parse::<Config>().unwrap_err()
    }

    #[test]
    fn each_host_has_all_that_is_said_of_it() {
        let all = "connect_timeout=1&tcp_user_timeout=2&keepalives=1&keepalives_idle=3&keepalives_interval=4&keepalives_retries=5\
                   &options=-c%20a.b=c&application_name=e&channel_binding=require&target_session_attrs=read-write&sslmode=require\
                   &sslnegotiation=direct";
        let apart = apart(&parsed(&format!(
            "postgres://u:p@a:1,%2Frun,c:3/d?hostaddr=10.0.0.1,10.0.0.2,10.0.0.3&{all}"
        )));
        let alone =
            |host: &str, address: &str| parsed(&format!("postgres://u:p@{host}/d?hostaddr={address}&{all}"));
        let hosts = [("a:1", "10.0.0.1"), ("%2Frun:5432", "10.0.0.2"), ("c:3", "10.0.0.3")];
        assert!(apart == hosts.map(|(host, address)| alone(host, address)));
    }

    #[tokio::test]
    async fn a_refusal_is_followed_at_once_and_silence_soon() {
        let server = parsed("postgres://u@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/d");
        let tried = Mutex::new(Vec::new());
        let connect = |host: Config| {
            let port = host.get_ports()[0];
            tried.lock().unwrap().push(port);
            async move {
                match port {
                    1 => std::future::pending().await,
                    2 => Err(refusal()),
                    port => Ok(port),
                }
            }
        };
        let soon = timeout(LONG / 2, reach(&server, LONG, connect)).await.expect("silence is waited for");
        assert_eq!(soon.ok(), Some(3));
        assert_eq!(*tried.lock().unwrap(), [1, 2, 3]);
        let none =
            reach(&server, Duration::from_millis(20), |_| std::future::pending::<Result<(), Error>>()).await;
        assert!(none.unwrap_err().is_none());
        let refused = |host: Config| async move {
            if host.get_ports() == [2] { Err::<(), _>(refusal()) } else { std::future::pending().await }
        };
        assert!(reach(&server, Duration::from_millis(200), refused).await.unwrap_err().is_some());
    }

    #[tokio::test]
    async fn each_of_several_addresses_is_tried() {
        let attempts = [std::future::pending().left_future(), async { Ok(7) }.right_future()];
        assert_eq!(first(attempts.into_iter(), Duration::from_millis(5)).await.ok(), Some(7));
        let by_name = addresses(parsed("postgres://u@localhost:1/d")).await;
        let local = |host: &Config| host.get_hostaddrs().len() == 1 && host.get_hostaddrs()[0].is_loopback();
        assert!(!by_name.is_empty() && by_name.iter().all(local));
    }

    /// Lets everybody in, and says to each query whether it is read-only (`on`). As one of the addresses of a name.
    async fn server(read_only: &'static str) -> Config {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let said = |kind: u8, body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
            [&[kind], &length[..], body].concat()
        };
        let (let_in, ready) = (said(b'R', &[0; 4]), said(b'Z', b"I"));
        let column = b"\0\x01transaction_read_only\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
        let value = [b"\0\x01\0\0\0", &[u8::try_from(read_only.len()).unwrap()][..], read_only.as_bytes()];
        let answer = [said(b'T', column), said(b'D', &value.concat()), said(b'C', b"SHOW\0"), ready.clone()];
        let (greeting, answer) = ([let_in, ready].concat(), answer.concat());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (greeting, answer, mut asked) = (greeting.clone(), answer.clone(), [0; 1024]);
                tokio::spawn(async move {
                    while let Ok(1..) = stream.read(&mut asked).await {
                        let says = if asked[0] == b'Q' { &answer } else { &greeting };
                        stream.write_all(says).await.unwrap();
                    }
                });
            }
        });
        parsed(&format!("postgres://u@db:{port}/d?hostaddr=127.0.0.1&sslmode=disable"))
    }

    #[tokio::test]
    async fn of_a_name_s_addresses_a_standby_is_used_only_where_none_takes_writes() {
        let (standby, primary) = (server("on").await, server("off").await);
        let connect = |host: Config| async move {
            let _connection = host.connect(NoTls).await.map_err(Some)?;
            Ok(host.get_ports()[0])
        };
        let port = |host: &Config| Some(host.get_ports()[0]);
        for (found, used) in [
            (vec![&standby, &primary], &primary),
            (vec![&primary, &standby], &primary),
            (vec![&standby, &standby], &standby),
            (vec![&standby], &standby),
        ] {
            let found = found.into_iter().cloned().collect();
            assert_eq!(first_address(found, LONG, connect).await.ok(), port(used));
        }
        let mut writes = standby.clone();
        writes.target_session_attrs(TargetSessionAttrs::ReadWrite);
        assert!(
            first_address(vec![writes.clone(), writes], LONG, connect).await.is_err(),
            "it was asked for"
        );
    }
}
