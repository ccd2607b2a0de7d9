/* Oribi.xs - the Perl face: configuration, serving, logging. What happens to a request is in src/. */
#include "src/perl_host.h"

MODULE = Oribi    PACKAGE = Oribi

PROTOTYPES: DISABLE

BOOT:
    socket_define(aTHX);
    process_watch_forks();
    newXS("Oribi::Writer::write", stream_write, __FILE__);
    newXS("Oribi::Writer::close", stream_close, __FILE__);

const char *
server_version()
  CODE:
    RETVAL = oribi_version();
  OUTPUT:
    RETVAL

int
serve(config)
    SV *config
  PREINIT:
    Server server;
    oribi_host host = {
        .abi = ORIBI_ABI,
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
        .server_ready = process_server_ready,
    };
  CODE:
    if (!sv_derived_from(config, "Oribi::Config"))
        croak("an Oribi::Config is expected");
#ifdef MULTIPLICITY
    server.perl = my_perl;
#endif
    host.data = &server;
    PERL_FLUSHALL_FOR_CHILD;
    RETVAL = oribi_run(INT2PTR(oribi_config *, SvIV(SvRV(config))), &host);
  OUTPUT:
    RETVAL

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
  CODE:
    RETVAL = sv_setref_pv(newSV(0), class, oribi_config_new());
  OUTPUT:
    RETVAL

int
set(config, name, value, origin)
    SV *config
    const char *name
    const char *value
    const char *origin
  CODE:
    if (!sv_derived_from(config, "Oribi::Config"))
        croak("an Oribi::Config is expected");
    RETVAL = oribi_config_set(INT2PTR(oribi_config *, SvIV(SvRV(config))), name, value, origin);
  OUTPUT:
    RETVAL

void
DESTROY(config)
    SV *config
  CODE:
    if (SvROK(config) && SvIOK(SvRV(config)) && SvIVX(SvRV(config))) {
        oribi_config_free(INT2PTR(oribi_config *, SvIVX(SvRV(config))));
        SvIV_set(SvRV(config), 0);
    }
