//! Who a certificate speaks of: the names in it, read from its DER. Nothing is verified here.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the methods' lifetimes are not general enough to be passed by name"
)]

use std::net::IpAddr;

use yasna::models::{ObjectIdentifier, TaggedDerValue};
use yasna::{ASN1Result, BERReader, Tag};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
/// RFC 5280's `GeneralName`: a DNS name and an IP address.
const DNS_NAME: u64 = 2;
const IP_ADDRESS: u64 = 7;

/// The names in a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The last common name, as Go reads it; empty if there is none.
    pub(crate) common_name: String,
    /// All organizations.
    pub(crate) organizations: Vec<String>,
    /// DNS names of the subject alternative names.
    pub(crate) dns_names: Vec<String>,
    /// IP addresses of the subject alternative names.
    pub(crate) addresses: Vec<IpAddr>,
}

/// The certificate is no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reading the names in a certificate")]
pub struct Malformed;

impl Subject {
    /// Reads a certificate in DER.
    pub(crate) fn of(certificate: &[u8]) -> Result<Self, Malformed> {
        let mut subject = Self::default();
        yasna::parse_der(certificate, |reader| {
            reader.read_sequence(|reader| {
                reader.next().read_sequence(|reader| {
                    reader.read_optional(|reader| {
                        reader.read_tagged(Tag::context(0), |reader| reader.read_u8())
                    })?;
                    // Serial number, signature algorithm, issuer, validity.
                    for _ in 0..4 {
                        reader.next().read_der()?;
                    }
                    subject.read_name(reader.next())?;
                    reader.next().read_der()?;
                    for unique_id in [1, 2] {
                        reader.read_optional(|reader| {
                            reader.read_tagged_implicit(Tag::context(unique_id), |reader| {
                                reader.read_bitvec_bytes()
                            })
                        })?;
                    }
                    let extensions = reader.read_optional(|reader| {
                        reader.read_tagged(Tag::context(3), |reader| reader.read_der())
                    })?;
                    extensions.map_or(Ok(()), |der| subject.read_extensions(&der))
                })?;
                reader.next().read_der()?;
                reader.next().read_der()?;
                Ok(())
            })
        })
        .map_err(|_| Malformed)?;
        Ok(subject)
    }

    fn read_name(&mut self, reader: BERReader<'_, '_>) -> ASN1Result<()> {
        reader.read_sequence_of(|reader| {
            reader.read_set_of(|reader| {
                reader.read_sequence(|reader| {
                    let kind = reader.next().read_oid()?;
                    let value = reader.next().read_tagged_der()?;
                    let text = String::from_utf8_lossy(value.value()).into_owned();
                    if kind == ObjectIdentifier::from_slice(COMMON_NAME) {
                        self.common_name = text;
                    } else if kind == ObjectIdentifier::from_slice(ORGANIZATION) {
                        self.organizations.push(text);
                    }
                    Ok(())
                })
            })
        })
    }

    fn read_extensions(&mut self, der: &[u8]) -> ASN1Result<()> {
        yasna::parse_der(der, |reader| {
            reader.read_sequence_of(|reader| {
                reader.read_sequence(|reader| {
                    let kind = reader.next().read_oid()?;
                    reader.read_optional(|reader| reader.read_bool())?;
                    let value = reader.next().read_bytes()?;
                    if kind != ObjectIdentifier::from_slice(SUBJECT_ALT_NAME) {
                        return Ok(());
                    }
                    yasna::parse_der(&value, |reader| {
                        reader.read_sequence_of(|reader| {
                            self.take_alternative(&reader.read_tagged_der()?);
                            Ok(())
                        })
                    })
                })
            })
        })
    }

    fn take_alternative(&mut self, name: &TaggedDerValue) {
        if name.tag() == Tag::context(DNS_NAME) {
            self.dns_names.push(String::from_utf8_lossy(name.value()).into_owned());
        } else if name.tag() == Tag::context(IP_ADDRESS) {
            let v4 = <[u8; 4]>::try_from(name.value()).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(name.value()).map(IpAddr::from);
            self.addresses.extend(v4.or(v6));
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_names_in_a_certificate_are_read() {
        let names =
            ["a.example".to_owned(), "*.b.example".to_owned(), "10.0.0.1".to_owned(), "::1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "jürgen");
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let subject = Subject::of(made.der()).unwrap();
        assert_eq!(
            subject,
            Subject {
                common_name: "jürgen".into(),
                organizations: vec!["system:masters".into()],
                dns_names: vec!["a.example".into(), "*.b.example".into()],
                addresses: vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            }
        );
    }

    #[test]
    fn garbage_and_every_truncation_are_refused() {
        let made = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        let made = made.self_signed(&KeyPair::generate().unwrap()).unwrap();
        for end in 0..made.der().len() {
            assert_eq!(Subject::of(&made.der()[..end]), Err(Malformed));
        }
        assert_eq!(Subject::of(b"\x30\x80\xff"), Err(Malformed));
    }
}
