/* extensions.h - the rest of perl_host.h, which includes it: declarations of files beside the path of a request. */
#ifndef ORIBI_PERL_EXTENSIONS_H
#define ORIBI_PERL_EXTENSIONS_H

/* ---- live.c ------------------------------------------------------------------------------------------------------------ */

XS(live_command);
XS(live_exchange);
XS(live_environment);

/* ---- app_metrics.c ------------------------------------------------------------------------------------------------------ */

XS(app_metrics_count);
XS(app_metrics_observe);

/* ---- tracing.c ---------------------------------------------------------------------------------------------------------- */

/* Requests the positions of the apps: see oribi_host.trace. Called in a signal handler. */
void tracing_ask(void *data, uint32_t question);
/* Called when the calling thread starts or stops using a context. */
void tracing_enter(Context *context);
void tracing_leave(Context *context);
/* Reports the position of the app for the request that `question` of the context notes. Called between two operations. */
void tracing_answer(pTHX_ Context *context);

/* ---- alarms.c ---------------------------------------------------------------------------------------------------------- */

/* Replaces the operator `alarm` in all code that is compiled from now on. */
void alarms_define(void);
/* Called when the calling thread starts or stops using a cloned interpreter. */
void alarms_enter(void);
void alarms_leave(void);

#endif
