//! DynamoDB Local, asked by plain requests, as any client would send them.

use super::remote::told;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Where it listens, which `cargo xtask services up` says.
pub fn endpoint() -> String {
    told("TENURE_TEST_DYNAMODB")
}

/// One request, as plain as can be: DynamoDB Local takes any signature.
pub fn ask(endpoint: &str, action: &str, body: &Value) -> Value {
    let body = body.to_string();
    let host = endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: {host}\r\nx-amz-target: DynamoDB_20120810.{action}\r\n\
         content-type: application/x-amz-json-1.0\r\nx-amz-date: 20260101T000000Z\r\ncontent-length: {}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=local/20260101/eu-west-1/dynamodb/aws4_request, \
         SignedHeaders=host, Signature=0\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// What answers all it is asked as the service at `endpoint` does, but at another time.
pub fn at_another_time(endpoint: &str, date: impl Fn() -> String + Clone + Send + 'static) -> String {
    let service = endpoint.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let here = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, service, date) = (stream.unwrap(), service.clone(), date.clone());
            std::thread::spawn(move || while pass_on(&stream, &service, &date()).is_some() {});
        }
    });
    here
}

/// What passes on all that it is asked, but answers this action as to a role that lacks the right.
pub fn that_refuses(endpoint: &str, action: &'static str) -> String {
    let service = endpoint.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let here = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, service) = (stream.unwrap(), service.clone());
            std::thread::spawn(move || while pass_on_but(&stream, &service, action).is_some() {});
        }
    });
    here
}

fn pass_on_but(near: &TcpStream, service: &str, action: &str) -> Option<()> {
    let (head, body) = message(&mut BufReader::new(near))?;
    let (mut near, is_refused) = (near, head.contains(&format!("DynamoDB_20120810.{action}\r\n")));
    let (head, body) = if is_refused {
        let body =
            br#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized"}"#
                .to_vec();
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        (head, body)
    } else {
        let far = TcpStream::connect(service).unwrap();
        (&far).write_all(head.as_bytes()).and_then(|()| (&far).write_all(&body)).unwrap();
        message(&mut BufReader::new(&far)).unwrap()
    };
    near.write_all(head.as_bytes()).and_then(|()| near.write_all(&body)).ok()
}

/// One request and its answer; none when there are no more.
fn pass_on(near: &TcpStream, service: &str, date: &str) -> Option<()> {
    let far = TcpStream::connect(service).unwrap();
    let (head, body) = message(&mut BufReader::new(near))?;
    (&far).write_all(head.as_bytes()).and_then(|()| (&far).write_all(&body)).unwrap();
    let (head, body) = message(&mut BufReader::new(&far)).unwrap();
    let is_date = |line: &&str| line.to_ascii_lowercase().starts_with("date:");
    let mut lines: Vec<&str> = head.lines().filter(|line| !is_date(line)).collect();
    let date = format!("date: {date}");
    lines.insert(1, &date);
    let head = lines.join("\r\n") + "\r\n";
    let mut near = near;
    near.write_all(head.as_bytes()).and_then(|()| near.write_all(&body)).ok()
}

/// A head, with the empty line that ends it, and a body.
fn message(from: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let is_length = |line: &&str| line.to_ascii_lowercase().starts_with("content-length:");
    let length = head.lines().find(is_length).map_or(0, |line| line[15..].trim().parse().unwrap());
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some((head, body))
}
