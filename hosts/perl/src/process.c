/* process.c - the stages in the life of the processes, and the app's hooks for them. */
#include "perl_host.h"

void process_hide_variables(pTHX) {
    HV *const variables = get_hv("ENV", 0);
    HE *entry;
    if (!variables)
        return;
    hv_iterinit(variables);
    while ((entry = hv_iternext(variables)) != NULL) {
        I32 size;
        const char *const name = hv_iterkey(entry, &size);
        /* An entry may be deleted when it has just been returned. */
        if (strnEQ(name, "ORIBI_", 6) && PerlEnv_getenv(name) == NULL)
            (void)hv_delete(variables, name, size, G_DISCARD);
    }
}

#ifdef MULTIPLICITY
#define dSERVER_PERL(data) \
    PerlInterpreter *my_perl = ((Server *)(data))->perl; \
    PERL_SET_CONTEXT(my_perl)
#else
#define dSERVER_PERL(data) UNUSED_ARGUMENT(data)
#endif

/* Calls the hook in %Oribi::Hooks, if there is one; if it dies, logs the error. */
static void run_hook(pTHX_ const char *name, uint32_t worker) {
    HV *hooks = get_hv("Oribi::Hooks", 0);
    SV **hook = hooks ? hv_fetch(hooks, name, (I32)strlen(name), 0) : NULL;
    const I32 scope = PL_scopestack_ix;
    int jump;
    dJMPENV;
    if (!hook || !SvROK(*hook))
        return;
    JMPENV_PUSH(jump);
    if (jump == 0) {
        ENTER;
        SAVETMPS;
        if (!protected_call(aTHX_ *hook, sv_2mortal(newSVuv(worker))))
            app_log_error(aTHX_ NULL, SvPVX_const(sv_2mortal(newSVpvf("the %s hook died", name))));
        FREETMPS;
        LEAVE;
    } else {
        while (PL_scopestack_ix > scope)
            LEAVE;
        app_log(aTHX_ NULL, ORIBI_LOG_ERROR, "the %s hook called exit", name);
        JMPENV_POP;
        forks_end_stray(aTHX_ STATUS_EXIT);
    }
    JMPENV_POP;
}

void process_before_fork(void *data, uint32_t worker) {
    dSERVER_PERL(data);
    run_hook(aTHX_ "before_fork", worker);
    /* Flushes buffered output before the fork; otherwise the child would write it again. */
    PERL_FLUSHALL_FOR_CHILD;
    fflush(NULL);
}

void process_worker_started(void *data, uint32_t worker) {
    dSERVER_PERL(data);
    /* Workers must not produce the same random numbers. */
    PL_srand_called = FALSE;
    signals_guard(aTHX);
    run_hook(aTHX_ "after_fork", worker);
}

void process_worker_stopping(void *data, uint32_t worker) {
    dSERVER_PERL(data);
    run_hook(aTHX_ "child_exit", worker);
}

void process_end(void *data, int status) {
    dSERVER_PERL(data);
    UNUSED_ARGUMENT(status);
    forks_end_interpreter(aTHX_ 0);
}

/* Sets `$0 = TITLE`: perl knows which part of its memory the system shows. */
void process_set_title(void *data, const char *title, size_t size) {
    dSERVER_PERL(data);
    SV *const name = get_sv("0", GV_ADD);
    /* If an app has made $0 read-only, the title is not set. */
    if (!SvREADONLY(name))
        sv_setpvn_mg(name, title, size);
}

void process_server_ready(void *data) {
    dSERVER_PERL(data);
    run_hook(aTHX_ "server_ready", 0);
}
