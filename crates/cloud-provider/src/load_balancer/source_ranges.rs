//! Who may connect: `spec.loadBalancerSourceRanges`, or the older annotation.

use std::collections::BTreeSet;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;

use crate::error::Error;
use crate::well_known::annotations;

/// The networks that may reach a balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRanges {
    ranges: BTreeSet<IpNet>,
}

impl SourceRanges {
    /// Reads them from a Service, by upstream's rules: the field if it is not empty, else the annotation, else
    /// everybody. An entry without a mask, an empty entry or a star is an error: a filter that is half read would let
    /// everybody in.
    pub fn of(service: &Service) -> Result<Self, Error> {
        let field = service.spec.as_ref().and_then(|spec| spec.load_balancer_source_ranges.as_deref());
        if let Some(ranges) = field.filter(|ranges| !ranges.is_empty()) {
            return Self::parse("spec.loadBalancerSourceRanges", ranges.iter().map(String::as_str));
        }
        let annotation = service
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(annotations::LOAD_BALANCER_SOURCE_RANGES))
            .map(|value| value.trim())
            .filter(|value| !value.is_empty());
        match annotation {
            Some(value) => Self::parse(annotations::LOAD_BALANCER_SOURCE_RANGES, value.split(',')),
            None => Ok(Self::everybody()),
        }
    }

    /// Everybody: what a Service gets that says nothing.
    pub fn everybody() -> Self {
        Self { ranges: [IpNet::V4(ipnet::Ipv4Net::default())].into() }
    }

    fn parse<'a>(origin: &str, entries: impl Iterator<Item = &'a str>) -> Result<Self, Error> {
        let ranges = entries
            .map(|entry| {
                entry.trim().parse::<IpNet>().map(|net| net.trunc()).map_err(|_| {
                    Error::invalid_config(format!(
                        "reading {origin}: {entry:?} is not a network: expected an address and a mask, as in 10.0.0.0/8"
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { ranges })
    }

    /// Whether everybody may connect: the set is exactly `0.0.0.0/0`, which is also what stands for "nothing said".
    pub fn allows_everybody(&self) -> bool {
        *self == Self::everybody()
    }

    /// The networks, in order.
    pub fn iter(&self) -> impl Iterator<Item = &IpNet> {
        self.ranges.iter()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use rstest::rstest;

    use super::*;

    fn service(field: &[&str], annotation: Option<&str>) -> Service {
        Service {
            metadata: ObjectMeta {
                annotations: annotation.map(|value| {
                    [(annotations::LOAD_BALANCER_SOURCE_RANGES.to_owned(), value.to_owned())].into()
                }),
                ..ObjectMeta::default()
            },
            spec: Some(ServiceSpec {
                load_balancer_source_ranges: Some(field.iter().map(ToString::to_string).collect()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    /// Proves: SVC-61, SVC-62
    #[rstest]
    #[case(&[], None, &["0.0.0.0/0"], true)]
    #[case(&["10.0.0.0/8", " 10.0.0.0/8 "], Some("1.2.3.0/24"), &["10.0.0.0/8"], false)]
    #[case(&[], Some(" 10.0.0.0/8 , 192.168.0.0/16 "), &["10.0.0.0/8", "192.168.0.0/16"], false)]
    #[case(&[], Some("  "), &["0.0.0.0/0"], true)]
    #[case(&["192.168.0.0/0"], None, &["0.0.0.0/0"], true)]
    #[case(&["::/0"], None, &["::/0"], false)]
    #[case(&["0.0.0.0/0", "10.0.0.0/8"], None, &["0.0.0.0/0", "10.0.0.0/8"], false)]
    fn the_field_wins_over_the_annotation_and_silence_means_everybody(
        #[case] field: &[&str],
        #[case] annotation: Option<&str>,
        #[case] expected: &[&str],
        #[case] everybody: bool,
    ) {
        let ranges = SourceRanges::of(&service(field, annotation)).unwrap();
        assert_eq!(ranges.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        assert_eq!(ranges.allows_everybody(), everybody);
    }

    /// Proves: SVC-61
    #[rstest]
    #[case(&["10.0.0.1"], None)]
    #[case(&[], Some("10.0.0.0/8,"))]
    #[case(&[], Some("*"))]
    fn a_filter_that_cannot_be_read_is_an_error_and_never_everybody(
        #[case] field: &[&str],
        #[case] annotation: Option<&str>,
    ) {
        let error = SourceRanges::of(&service(field, annotation)).unwrap_err();
        assert_eq!(error.decision(), &crate::Decision::InvalidConfig);
    }
}
