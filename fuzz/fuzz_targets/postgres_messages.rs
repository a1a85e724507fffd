//! Any stream of messages, taken for a client's and for a server's: a message that is read comes
//! back when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::postgres::backend::{
    self, Authentication, BackendKey, Columns, Fields, Negotiate, Notification, Row,
};
use wire::postgres::frame;
use wire::postgres::frontend::{
    self, Bind, Execute, Parse, SaslInitial, Target, put_close, put_describe, put_execute,
    put_query, put_sasl_initial,
};

const MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(frame)) = frame::next(rest, MAX) {
        rest = &rest[frame.whole.len()..];
        of_a_client(frame.tag, frame.body, frame.whole);
        of_a_server(frame.tag, frame.body, frame.whole);
    }
});

fn of_a_client(tag: u8, body: &[u8], whole: &[u8]) {
    let mut again = Vec::new();
    let read = match tag {
        b'P' => Parse::read(body).map(|parse| parse.put_as(&mut again, parse.name)),
        b'B' => Bind::read(body).map(|bind| bind.put_as(&mut again, bind.statement)),
        b'D' => Target::of_describe(body).map(|target| put_describe(&mut again, target)),
        b'C' => Target::of_close(body).map(|target| put_close(&mut again, target)),
        b'E' => Execute::read(body).map(|e| put_execute(&mut again, e.portal, e.rows_max)),
        b'Q' => frontend::query(body).map(|text| put_query(&mut again, text)),
        b'p' => {
            let _ = frontend::password(body);
            let Ok(initial) = SaslInitial::read(body) else { return };
            let (Some(response), Ok(name)) = (initial.response, str::from_utf8(initial.mechanism))
            else {
                return;
            };
            put_sasl_initial(&mut again, name, response);
            Ok(())
        }
        b'f' => frontend::copy_fail(body).map(|why| frontend::put_copy_fail(&mut again, why)),
        _ => return,
    };
    assert!(read.is_err() || again == whole);
}

fn of_a_server(tag: u8, body: &[u8], whole: &[u8]) {
    let mut again = Vec::new();
    let out = &mut again;
    let read = match tag {
        b'S' => backend::parameter_status(body)
            .map(|(name, value)| backend::put_parameter_status(out, name, value)),
        b'K' => BackendKey::read(body)
            .map(|key| backend::put_backend_key_data(out, key.process_id, key.secret)),
        b'Z' => {
            backend::ready_for_query(body).map(|status| backend::put_ready_for_query(out, status))
        }
        b'A' => Notification::read(body)
            .map(|n| backend::put_notification(out, n.process_id, n.channel, n.payload)),
        b'D' => Row::read(body).map(|row| {
            let values: Vec<_> = row.values().collect();
            assert_eq!(values.len(), row.count);
            backend::put_data_row(out, values);
        }),
        b'T' => {
            let Ok(columns) = Columns::read(body) else { return };
            return assert_eq!(columns.iter().count(), columns.count);
        }
        b'E' | b'N' => {
            let Ok(fields) = Fields::read(body) else { return };
            let _ = (fields.is_fatal(), fields.code(), fields.hint(), fields.detail());
            return assert_eq!(
                fields.iter().map(|(_, text)| text.len() + 2).sum::<usize>() + 1,
                body.len()
            );
        }
        b'R' => {
            if let Ok(Authentication::Sasl(list)) = Authentication::read(body) {
                backend::mechanisms(list).for_each(drop);
            }
            return;
        }
        b'v' => {
            let Ok(negotiate) = Negotiate::read(body) else { return };
            return assert_eq!(negotiate.names().count(), negotiate.unknown);
        }
        b'C' => {
            let _ = backend::command_complete(body).map(backend::command_rows);
            return;
        }
        _ => return,
    };
    assert!(read.is_err() || again == whole);
}
