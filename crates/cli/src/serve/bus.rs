//! The bus of a server: the embedded queue, or Kafka.

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use ringfence_bus::{Bus, KafkaBus, Options, SqliteBus};
use ringfence_engine::Dependency;
use ringfence_sqlite::Db;
use ringfence_types::Clock;

use crate::{failure::Failure, settings::Settings};

/// Time that members get to leave their groups when the server stops.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// An open bus.
#[derive(Debug)]
pub(super) enum OpenBus {
    Embedded(SqliteBus),
    Kafka(KafkaBus),
}

impl OpenBus {
    /// Opens the bus that the settings name. `origin` is the name of the installation.
    pub(super) async fn open(
        settings: &Settings,
        db: Db,
        origin: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let opened = match &settings.kafka {
            None => SqliteBus::open(db, Options::default(), clock).await.map(Self::Embedded),
            Some(kafka) => {
                let options = kafka.options(&origin.replace('/', "-"));
                KafkaBus::open(db, options, clock).await.map(Self::Kafka)
            }
        };
        opened.map_err(|error| Failure::because("cannot open the bus", &error))
    }

    /// The broker, for the readiness probe; none of the embedded queue. Registers its metrics.
    pub(super) fn dependency(&self, registry: &mut Registry) -> Option<Dependency> {
        let Self::Kafka(bus) = self else { return None };
        bus.metrics().register(registry);
        Some(Dependency { name: "kafka", is_up: bus.is_up() })
    }

    /// Handle for those that publish and read.
    pub(super) fn shared(&self) -> Arc<dyn Bus> {
        match self {
            Self::Embedded(bus) => Arc::new(bus.clone()),
            Self::Kafka(bus) => Arc::new(bus.clone()),
        }
    }

    /// Ends all waiting for messages.
    pub(super) async fn close(&self) {
        match self {
            Self::Embedded(bus) => bus.close(),
            Self::Kafka(bus) => bus.close(LEAVE_TIMEOUT).await,
        }
    }
}
