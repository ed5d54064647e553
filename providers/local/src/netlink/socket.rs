//! One socket and one question at a time: what is sent, and when an answer is whole.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket as Raw, SocketAddr};

/// The kernel fills at most 32 KiB at once.
pub(super) const BUFFER: usize = 64 * 1024;

/// How often a list is read again because it changed meanwhile.
const PATIENCE: usize = 10;

/// How a change treats what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Nothing may be there.
    New,
    /// What is there is replaced.
    Replace,
    /// It is what is there.
    Old,
}

#[derive(Debug)]
pub(super) struct Socket {
    raw: Raw,
    sequence: u32,
}

impl Socket {
    pub(super) fn open() -> io::Result<Self> {
        let mut raw = Raw::new(NETLINK_ROUTE)?;
        raw.bind_auto()?;
        raw.connect(&SocketAddr::new(0, 0))?;
        // Filters are then honoured by the kernel; one that is too old for it sends more, which is filtered here.
        let _ = raw.set_netlink_get_strict_chk(true);
        Ok(Self { raw, sequence: 0 })
    }

    /// Asks for a whole list. One that was interrupted by a change may lack something, and is read again.
    pub(super) fn dump(&mut self, request: &RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..PATIENCE {
            self.send(request.clone(), NLM_F_DUMP)?;
            if let Some(list) = self.whole_list()? {
                return Ok(list);
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "the list changed each time while it was read"))
    }

    /// Asks for one thing.
    pub(super) fn ask(&mut self, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(request, NLM_F_ACK)?;
        let list = self.whole_list()?;
        Ok(list.unwrap_or_default())
    }

    /// Changes something, and waits for the word that it was done.
    pub(super) fn change(&mut self, request: RouteNetlinkMessage, manner: Manner) -> io::Result<()> {
        let flags = match manner {
            Manner::New => NLM_F_CREATE | NLM_F_EXCL,
            Manner::Replace => NLM_F_CREATE | NLM_F_REPLACE,
            Manner::Old => 0,
        };
        self.send(request, NLM_F_ACK | flags)?;
        self.whole_list().map(drop)
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.raw.send(&bytes, 0).map(drop)
    }

    /// Reads to the end of the answer; `None` if it was interrupted. An answer without an end is an error.
    fn whole_list(&mut self) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
        let (mut list, mut interrupted) = (Vec::new(), false);
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            buffer.clear();
            self.raw.recv(&mut buffer, 0)?;
            for message in messages(&buffer) {
                let message = message?;
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Done(done) if done.code != 0 => {
                        return Err(io::Error::from_raw_os_error(done.code.saturating_abs()));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => {
                        return Ok((!interrupted).then_some(list));
                    }
                    NetlinkPayload::InnerMessage(content) => list.push(content),
                    _ => interrupted = true,
                }
            }
        }
    }
}

/// The messages in what was received at once.
pub(super) fn messages(
    mut bytes: &[u8],
) -> impl Iterator<Item = io::Result<NetlinkMessage<RouteNetlinkMessage>>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
        let Some(message) = bytes.get(..length).filter(|_| length > 0) else {
            bytes = &[];
            return Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a netlink message was cut short")));
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let read = NetlinkMessage::deserialize(message);
        Some(read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)))
    })
}
