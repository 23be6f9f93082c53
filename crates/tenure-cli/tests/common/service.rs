//! DynamoDB Local, asked by plain requests, as any client would send them.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Where it listens, which `cargo xtask services up` says.
pub fn endpoint() -> String {
    let said = std::env::var("TENURE_TEST_DYNAMODB");
    said.unwrap_or_else(|_| {
        panic!("TENURE_TEST_DYNAMODB does not say where DynamoDB Local listens: `cargo xtask services up` starts it and prints that")
    })
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
