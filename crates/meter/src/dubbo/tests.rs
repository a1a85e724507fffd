use std::sync::Arc;

use proptest::prelude::{any, proptest};
use serde_json::json;
use wire::dubbo::{
    Event, Header, Kind as FrameKind, Message, Response, ResponseBody, Status, put_event,
    put_failure, put_response,
};
use wire::hessian2::{Class, Encoder, Limits, Object, Value};

use super::{CallChannel, CallOptions, CallReader, Dubbo, VaryingArguments};
use crate::http::data::{Data, RowOrder};
use crate::recorder::Kind;
use crate::workload::{Callers, Reader as _, Workload as _};

const URL: &str = "dubbo://h/com.acme.Echo?version=1.0&group=a";

fn dubbo(options: &CallOptions) -> Dubbo {
    Dubbo::new(&URL.parse().unwrap(), options).unwrap()
}

fn echo() -> CallOptions {
    let arguments = json!(["a", 5]);
    let types = "java.lang.String, int".into();
    CallOptions { method: "echo".into(), types, arguments, ..CallOptions::default() }
}

fn result(id: i64, body: ResponseBody) -> Vec<u8> {
    let mut out = Vec::new();
    let response = Response { body, attachments: None };
    put_response(&mut out, &mut Encoder::default(), id, &response);
    out
}

fn waiting(number: u64) -> CallReader {
    let mut reader = CallReader::default();
    reader.number(number);
    reader.begin(0);
    reader
}

#[test]
fn a_call_is_what_its_options_say_and_has_the_number_of_its_request() {
    let mut out = vec![7];
    dubbo(&echo()).request(258, &mut out);
    let header = Header::parse(&out[1..], u32::MAX).unwrap().unwrap();
    assert_eq!((header.id, header.kind), (258, FrameKind::Request { is_two_way: true }));
    let Ok(Message::Request(call)) = Message::decode(&header, &out[17..], Limits::default()) else {
        panic!("a request")
    };
    assert_eq!((&*call.path, &*call.method), ("com.acme.Echo", "echo"));
    assert_eq!(call.descriptor, "Ljava/lang/String;I");
    assert_eq!(call.arguments, [Value::from("a"), Value::Int(5)]);
    assert_eq!(call.service_version.as_deref(), Some("1.0"));
    assert_eq!(call.attachments.get("group"), Some(&Value::from("a")));
}

/// The arguments of a call.
fn arguments(dubbo: &mut Dubbo, number: u64) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    dubbo.request(number, &mut out);
    let header = Header::parse(&out, u32::MAX).unwrap()?;
    assert_eq!(header.id.cast_unsigned(), number);
    let Ok(Message::Request(call)) = Message::decode(&header, &out[16..], Limits::default()) else {
        panic!("a request")
    };
    Some(call.arguments)
}

fn varying(text: &str, csv: &str, order: RowOrder) -> CallOptions {
    let data = vec![Data::new(csv.as_bytes(), order, 1).unwrap()];
    let varying = VaryingArguments::new(text, data, 1).unwrap().map(Arc::new);
    CallOptions { varying, arguments: json!(null), ..echo() }
}

#[test]
fn arguments_may_be_others_in_each_call() {
    let csv = "name,n\n\"a \"\"b\"\"\",5\nc,6\n";
    let options = varying("[\"{{name}}\", {{n}}]", csv, RowOrder::Once);
    let mut of = dubbo(&options);
    assert_eq!(of.requests_max(), Some(2));
    assert_eq!(arguments(&mut of, 0), Some(vec![Value::from("a \"b\""), Value::Int(5)]));
    assert_eq!(arguments(&mut of, 1), Some(vec![Value::from("c"), Value::Int(6)]));
    let options = varying("[\"x{{seq 7}}\", {{random 3 3}}]", csv, RowOrder::Sequence);
    let mut of = dubbo(&CallOptions { is_generic: true, ..options });
    assert_eq!(of.requests_max(), None);
    let of_invoke = arguments(&mut of, 2).unwrap();
    let Value::List(list) = &of_invoke[2] else { panic!("a list") };
    assert_eq!(list.elements, [Value::from("x9"), Value::Int(3)]);
}

#[test]
fn a_call_that_its_data_are_not_fit_for_is_not_made() {
    let options = varying("[\"{{name}}\", {{n}}]", "name,n\na,5\nb,x\n", RowOrder::Sequence);
    let mut of = dubbo(&options);
    assert!(arguments(&mut of, 0).is_some());
    let mut out = vec![7];
    of.request(1, &mut out);
    assert_eq!(out, [7]);
    // What is wrong from the first call on is told at once.
    let wrong = varying("[\"{{name}}\", \"{{n}}\"]", "name,n\na,5\n", RowOrder::Sequence);
    let told = Dubbo::new(&URL.parse().unwrap(), &wrong).unwrap_err().to_string();
    assert!(told.contains("argument 2"), "{told}");
    assert!(VaryingArguments::new("[{{other}}]", Vec::new(), 1).is_err());
    assert!(VaryingArguments::new("[5]", Vec::new(), 1).unwrap().is_none());
}

#[test]
fn any_version_or_group_is_none_that_can_be_called() {
    let url = "zookeeper://h/com.acme.Echo?version=*".parse().unwrap();
    let told = Dubbo::new(&url, &echo()).unwrap_err().to_string();
    assert!(told.contains("--service-version"), "{told}");
}

#[test]
fn a_generic_call_names_its_method_and_types() {
    let mut out = Vec::new();
    dubbo(&CallOptions { is_generic: true, ..echo() }).request(1, &mut out);
    let header = Header::parse(&out, u32::MAX).unwrap().unwrap();
    let Ok(Message::Request(call)) = Message::decode(&header, &out[16..], Limits::default()) else {
        panic!("a request")
    };
    assert_eq!((&*call.method, call.arguments.len()), ("$invoke", 3));
    assert_eq!(call.arguments[0], Value::from("echo"));
    assert_eq!(call.attachments.get("generic"), Some(&Value::from("true")));
}

#[test]
fn what_is_no_call_is_told() {
    let of = |url: &str, options: CallOptions| {
        Dubbo::new(&url.parse().unwrap(), &options).unwrap_err().to_string()
    };
    assert!(of("dubbo://h", echo()).contains("no interface"));
    for (types, words) in [
        ("int", "2 arguments and 1 types"),
        ("int,int", "argument 1: \"a\" is not int"),
        ("java.util.List<int", "do not match"),
    ] {
        let told = of(URL, CallOptions { types: types.into(), ..echo() });
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn a_result_is_a_success_and_the_rest_is_in_the_words_of_the_provider() {
    let thrown = |class: &str, fields: &[(&str, &str)]| {
        let (fields, values) =
            fields.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).unzip();
        let class = Class { name: class.into(), fields };
        ResponseBody::Exception(Value::Object(Object { class: class.into(), values }))
    };
    let generic = [("exceptionClass", "com.acme.Gone"), ("exceptionMessage", "no such order\nat")];
    let mut full = Vec::new();
    put_failure(&mut full, 3, Status::ServerThreadpoolExhausted, "pool is full");
    for (bytes, words) in [
        (result(3, ResponseBody::Null), None),
        (result(3, ResponseBody::Value(Value::from("x"))), None),
        (
            result(3, thrown("com.acme.Gone", &[("detailMessage", "no such order")])),
            Some("exception com.acme.Gone: no such order"),
        ),
        (
            result(3, thrown("org.apache.dubbo.rpc.service.GenericException", &generic)),
            Some("exception com.acme.Gone: no such order"),
        ),
        (full, Some("status 100 SERVER_THREADPOOL_EXHAUSTED_ERROR: pool is full")),
    ] {
        let mut reader = waiting(3);
        let answer = reader.read(&bytes).unwrap().unwrap();
        assert!(answer.reusable);
        match words {
            None => assert_eq!(answer.kind, Kind::Succeeded),
            Some(words) => {
                assert_eq!((answer.kind, &*reader.failure(&answer)), (Kind::Server, words))
            }
        }
    }
}

#[test]
fn an_answer_that_came_late_or_twice_is_nobody_elses() {
    let mut reader = waiting(4);
    let old = result(3, ResponseBody::Null);
    assert_eq!(reader.read(&old), Ok(None));
    let twice = [result(4, ResponseBody::Null), result(4, ResponseBody::Null)].concat();
    assert!(reader.read(&twice).unwrap().is_some());
}

/// One call, under the number 40 on the connection, which had the number 4.
#[derive(Default)]
struct OneCaller {
    is_answered: bool,
    inbox: Vec<u8>,
}

impl Callers for OneCaller {
    fn answered(&mut self, id: u64) -> Option<(u64, &mut Vec<u8>)> {
        let is_first = id == 40 && !std::mem::replace(&mut self.is_answered, id == 40);
        is_first.then_some((4, &mut self.inbox))
    }
}

#[test]
fn heartbeats_are_answered_and_a_provider_that_leaves_takes_no_further_call() {
    let (mut channel, mut caller, mut out) = (CallChannel::boxed(), OneCaller::default(), vec![]);
    let (mut beat, mut leaving) = (Vec::new(), Vec::new());
    put_event(&mut beat, FrameKind::Request { is_two_way: true }, 9, &Event::Heartbeat);
    put_event(&mut leaving, FrameKind::Request { is_two_way: false }, 10, &Event::ReadOnly);
    channel.read(&beat, &mut caller, &mut out).unwrap();
    let header = Header::parse(&out, 99).unwrap().unwrap();
    assert_eq!((header.id, header.is_event, out.len()), (9, true, header.frame_length()));
    assert_eq!(header.kind, FrameKind::Response { status: Status::Ok });
    out.clear();
    channel.heartbeat(11, &mut out);
    assert_eq!(Header::parse(&out, 99).unwrap().map(|header| header.is_event), Some(true));
    assert!(channel.takes_requests());
    channel.read(&leaving, &mut caller, &mut out).unwrap();
    assert!(!channel.takes_requests());
    // What was asked before is answered nevertheless.
    channel.read(&result(40, ResponseBody::Null), &mut caller, &mut out).unwrap();
    assert_eq!(waiting(4).read(&caller.inbox).unwrap().unwrap().kind, Kind::Succeeded);
}

#[test]
fn a_call_has_another_number_on_its_connection() {
    let (channel, mut out) = (CallChannel::boxed(), Vec::new());
    dubbo(&echo()).request(258, &mut out);
    assert_eq!(channel.stamp(&mut out, 40), 258);
    assert_eq!(Header::parse(&out, u32::MAX).unwrap().unwrap().id, 40);
}

#[test]
fn a_connection_with_anything_else_than_frames_is_malformed() {
    let read =
        |bytes: &[u8]| CallChannel::boxed().read(bytes, &mut OneCaller::default(), &mut Vec::new());
    assert!(read(b"HTTP/1.1 200").is_err());
    let mut call = Vec::new();
    dubbo(&echo()).request(1, &mut call);
    assert!(read(&call).unwrap_err().0.contains("called a method of ours"));
}

#[test]
fn garbage_and_bodies_over_the_limit_are_malformed() {
    assert!(waiting(1).read(b"HTTP/1.1 200").is_err());
    let mut long = result(1, ResponseBody::Null);
    long[12..16].copy_from_slice(&(9_u32 << 20).to_be_bytes());
    assert!(waiting(1).read(&long).unwrap_err().0.contains("8 MiB"));
}

proptest! {
    #[test]
    fn answers_reach_the_caller_once_in_any_pieces(cuts: Vec<proptest::sample::Index>) {
        let bytes = [3, 40, 40, 41].map(|id| result(id, ResponseBody::Value(Value::from("text"))));
        let bytes = bytes.concat();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let (mut channel, mut caller, mut begin) = (CallChannel::boxed(), OneCaller::default(), 0);
        for cut in cuts {
            channel.read(&bytes[begin..cut], &mut caller, &mut Vec::new()).unwrap();
            begin = cut;
        }
        assert_eq!(caller.inbox, result(4, ResponseBody::Value(Value::from("text"))));
    }

    #[test]
    fn no_bytes_of_a_connection_panic(bytes: Vec<u8>, flags in any::<u8>()) {
        let mut framed = vec![0xda, 0xbb, flags, 20, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0];
        framed.push(bytes.len().min(255) as u8);
        framed.extend_from_slice(&bytes);
        let read = |bytes: &[u8]| {
            CallChannel::boxed().read(bytes, &mut OneCaller::default(), &mut Vec::new())
        };
        let _ = (read(&framed), read(&bytes));
    }

    #[test]
    fn an_answer_is_found_in_any_pieces(cut in 0_usize..40, text in ".{0,20}") {
        let bytes = result(1, ResponseBody::Value(Value::String(text)));
        let mut reader = waiting(1);
        let (front, behind) = bytes.split_at(cut.min(bytes.len() - 1));
        assert_eq!(reader.read(front), Ok(None));
        assert!(reader.read(behind).unwrap().is_some());
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, status in any::<u8>()) {
        let mut framed = vec![0xda, 0xbb, 2, status, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        framed.push(bytes.len().min(255) as u8);
        framed.extend_from_slice(&bytes);
        let _ = waiting(1).read(&framed);
        let _ = waiting(1).read(&bytes);
    }
}
