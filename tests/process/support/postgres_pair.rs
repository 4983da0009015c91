//! A PostgreSQL primary with a synchronous standby of one test's own, for a failover.

use super::postgres_server::Servant;

/// The standby is made by `pg_basebackup -R` and follows by streaming. No commit of the primary is answered before the standby
/// has it. Both run without fsync: processes are killed here, and not the machine, so that what was written is not lost.
const SCRIPT: &str = r#"
source scripts/lib/postgres.sh
standby_stop() { postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_ctl" stop -D "$standby" -m immediate -w >&2; }
standby_start() {
    postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_ctl" start -D "$standby" -l "$POSTGRES_DIR/standby.log" -o "-p $standby_port" -w >&2
}
ask() { postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/psql" -h 127.0.0.1 -p "$port" -U postgres -XAtqc "$1"; }
# All its processes at once. It starts no further one while its children are counted.
primary_signal() {
    local postmaster
    postmaster="$(head -n 1 "$POSTGRES_DIR/data/postmaster.pid")"
    kill -s STOP "$postmaster" 2>/dev/null || return 0
    # shellcheck disable=SC2046  # one argument for each
    kill -s "$1" "$postmaster" $(ps -o pid= --ppid "$postmaster")
}
trap '[[ -z "$POSTGRES_DIR" ]] || { primary_signal KILL; standby_stop; }; postgres_stop' EXIT
postgres_provide >&2 || { echo "MISSING $POSTGRES_MISSING"; exit 1; }
port="${TEST_DATABASE_URL##*:}"
port="${port%%/*}"
standby="$POSTGRES_DIR/standby"
standby_port="$(postgres_free_port)"
postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_basebackup" -D "$standby" -R -c fast --no-sync -h 127.0.0.1 -p "$port" -U postgres >&2 || exit 1
standby_start || exit 1
ask "ALTER SYSTEM SET synchronous_standby_names = '*'" >&2
ask "SELECT pg_reload_conf()" >&2
until [[ "$(ask "SELECT sync_state FROM pg_stat_replication")" == sync ]]; do sleep 0.1; done
echo "URL postgres://postgres@127.0.0.1:$port,127.0.0.1:$standby_port/postgres?target_session_attrs=read-write"
while read -r word; do
    case "$word" in
        kill_primary) primary_signal KILL ;;
        freeze_primary) primary_signal STOP ;;
        promote) postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_ctl" promote -D "$standby" -w >&2 ;;
        stop_standby) standby_stop ;;
        start_standby) standby_start ;;
    esac
    echo "DONE $word"
done
"#;

/// The two servers.
pub struct PostgresPair {
    servant: Servant,
    /// Of the administrator, at whichever of the two can be written to.
    pub url: String,
}

impl PostgresPair {
    pub async fn start() -> Self {
        let mut servant = Servant::start(SCRIPT);
        let url = servant.announced("URL ").await;
        Self { servant, url }
    }

    /// As the loss of its machine: all its processes are gone at once, and it never comes back.
    pub async fn kill_primary(&mut self) {
        self.servant.obey("kill_primary").await;
    }

    /// All its processes stop where they are: its machine still accepts connections, and nothing answers.
    pub async fn freeze_primary(&mut self) {
        self.servant.obey("freeze_primary").await;
    }

    /// Makes the standby the primary.
    pub async fn promote(&mut self) {
        self.servant.obey("promote").await;
    }

    pub async fn stop_standby(&mut self) {
        self.servant.obey("stop_standby").await;
    }

    pub async fn start_standby(&mut self) {
        self.servant.obey("start_standby").await;
    }
}
