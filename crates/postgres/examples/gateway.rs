//! The gateway alone, for profiles: `gateway LISTEN BACKEND_URL [WORKERS]`.
use flow::Workers;
fn main() {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap().parse().unwrap();
    let url = args.next().unwrap();
    let workers: usize = args.next().map_or(1, |n| n.parse().unwrap());
    let mut settings = postgres::Settings { listen: vec![listen], ..postgres::Settings::default() };
    settings.backend.push(postgres::settings::BackendSettings::new("a", &url));
    settings.auth.push(postgres::settings::AuthRule::everyone(postgres::settings::Method::Trust));
    let registry = watch::metrics::Registry::new();
    let control =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let gateway = {
        let _in = control.enter();
        postgres::Gateway::open(settings, &registry, control.handle().clone()).unwrap()
    };
    let shares =
        std::sync::Arc::new(std::sync::Mutex::new(gateway.bind(workers).unwrap().shares()));
    let serving = gateway.clone();
    tracing_stderr();
    let mut workers = Workers::start(workers, &registry, move |worker: flow::Worker| {
        let share = shares.lock().unwrap().pop().unwrap();
        let gateway = serving.clone();
        async move { gateway.run_worker(share, worker).await }
    })
    .unwrap();
    control.block_on(async { workers.ended().await });
}
fn tracing_stderr() {}
