/* Oribi.xs - the Perl face: configuration, serving, logging. src/ handles requests. */
#include "src/perl_host.h"

/* The scalars and arrays to which an Oribi::Config refers. */
typedef struct {
    oribi_config *settings;
    unsigned forks; /* a worker inherits the object, but its server still reads the settings when Perl is done with it */
} Config;

static Config *config_of(pTHX_ SV *object) {
    if (!sv_derived_from(object, "Oribi::Config") || !SvROK(object) || !SvIOK(SvRV(object)))
        croak("an Oribi::Config is expected");
    return INT2PTR(Config *, SvIVX(SvRV(object)));
}

MODULE = Oribi    PACKAGE = Oribi

PROTOTYPES: DISABLE

BOOT:
    oribi_prepare();
    process_hide_variables(aTHX);
    socket_define(aTHX);
    errors_define(aTHX);
    input_define(aTHX);
    forks_watch();
    alarms_define();
    interruption_define();
    signals_define();
    newXS("Oribi::Writer::write", stream_write, __FILE__);
    newXS("Oribi::Writer::close", stream_close, __FILE__);
    newXS("Oribi::Writer::flush", stream_flush, __FILE__);
    newXS("Oribi::Writer::poll_cb", observing_poll, __FILE__);
    newXS("Oribi::on_gone", observing_gone, __FILE__);
    newXS("Oribi::on_request_gone", observing_request_gone, __FILE__);
    newXS("Oribi::on_request_room", observing_request_room, __FILE__);
    newXS("Oribi::extend_deadline", interruption_extend, __FILE__);
    newXS("Oribi::Live::command", live_command, __FILE__);
    newXS("Oribi::Live::exchange", live_exchange, __FILE__);
    newXS("Oribi::Live::environment", live_environment, __FILE__);
    newXS("Oribi::count", app_metrics_count, __FILE__);
    newXS("Oribi::observe", app_metrics_observe, __FILE__);

const char *
server_version()
  CODE:
    RETVAL = oribi_version();
  OUTPUT:
    RETVAL

int
serve(config, looping)
    SV *config
    bool looping
  PREINIT:
    Server server;
    oribi_host host = {
        .size = sizeof(oribi_host),
        .name = "perl",
        .open = interpreter_open,
        .enter = interpreter_enter,
        .leave = interpreter_leave,
        .close = interpreter_close,
        .answer = call_answer,
        .run_deferred = call_run_deferred,
        .before_fork = process_before_fork,
        .worker_started = process_worker_started,
        .worker_stopping = process_worker_stopping,
        .set_title = process_set_title,
        .server_ready = process_server_ready,
        .end = process_end,
        .begin = interpreter_begin,
        .attend = call_attend,
        .interrupt = interruption_order,
        .trace = tracing_ask,
    };
  CODE:
#ifdef MULTIPLICITY
    server.perl = my_perl;
#endif
    server.looping = looping;
    host.data = &server;
    if (looping)
        host.run_loop = call_run_loop;
    PERL_FLUSHALL_FOR_CHILD;
    RETVAL = oribi_run(config_of(aTHX_ config)->settings, &host);
  OUTPUT:
    RETVAL

void
load_failed(text)
    SV *text
  PREINIT:
    STRLEN size;
    const char *bytes;
  CODE:
    bytes = SvPV_const(text, size);
    oribi_load_failed(bytes, size);

void
last_error()
  PPCODE:
    mXPUSHp(oribi_last_error(), strlen(oribi_last_error()));

void
log_message(message)
    SV *message
  PREINIT:
    static const struct { const char *name; oribi_log_level level; } levels[] = {
        {"debug", ORIBI_LOG_DEBUG}, {"info", ORIBI_LOG_INFO}, {"warn", ORIBI_LOG_WARN},
        {"warning", ORIBI_LOG_WARN}, {"error", ORIBI_LOG_ERROR}, {"fatal", ORIBI_LOG_ERROR},
    };
    oribi_log_level level = ORIBI_LOG_INFO;
    SV **value;
    STRLEN size;
    const char *text;
  CODE:
    if (!SvROK(message) || SvTYPE(SvRV(message)) != SVt_PVHV)
        croak("psgix.logger expects a hash reference with level and message");
    value = hv_fetchs((HV *)SvRV(message), "level", 0);
    if (value && SvOK(*value)) {
        size_t i;
        text = SvPV_nolen_const(*value);
        for (i = 0; i < C_ARRAY_LENGTH(levels) && strNE(levels[i].name, text); i++)
            ;
        if (i == C_ARRAY_LENGTH(levels))
            croak("psgix.logger knows the levels debug, info, warn, error and fatal, not %s", text);
        level = levels[i].level;
    }
    value = hv_fetchs((HV *)SvRV(message), "message", 0);
    if (value && SvOK(*value)) {
        text = SvPV_const(*value, size);
        oribi_log(level, text, size);
    }


MODULE = Oribi    PACKAGE = Oribi::Config

SV *
new(class)
    const char *class
  PREINIT:
    Config *config;
  CODE:
    Newxz(config, 1, Config);
    config->settings = oribi_config_new();
    config->forks = forks_count();
    RETVAL = sv_setref_pv(newSV(0), class, config);
  OUTPUT:
    RETVAL

int
set(config, name, value, origin)
    SV *config
    const char *name
    const char *value
    const char *origin
  CODE:
    RETVAL = oribi_config_set(config_of(aTHX_ config)->settings, name, value, origin);
  OUTPUT:
    RETVAL

# The value of --loop, and whether a loop can run; nothing if the settings contradict each other.
void
event_loop(config)
    SV *config
  PREINIT:
    int can_loop = 0;
    const char *choice;
  PPCODE:
    choice = oribi_config_loop(config_of(aTHX_ config)->settings, &can_loop);
    if (choice) {
        mXPUSHp(choice, strlen(choice));
        mXPUSHi(can_loop);
    }

# Clones of the interpreter get no copy of a pointer.
int
CLONE_SKIP(...)
  CODE:
    UNUSED_ARGUMENT(items);
    RETVAL = 1;
  OUTPUT:
    RETVAL

void
DESTROY(object)
    SV *object
  PREINIT:
    Config *config;
  CODE:
    config = config_of(aTHX_ object);
    if (config->forks == forks_count()) {
        oribi_config_free(config->settings);
        Safefree(config);
    }
