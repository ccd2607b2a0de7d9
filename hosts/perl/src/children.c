/* children.c - the environment of programs that the app starts in a cloned interpreter.
 *
 * Only in its first interpreter does Perl copy changes of %ENV to the environment of the process. So variables that an app sets
 * in %ENV in a cloned interpreter would never reach the programs that the app starts: a CGI script, git, psql. A child process
 * that a cloned interpreter forks, by fork, system, backticks or a pipe, has only this interpreter. So in the child this file
 * makes it the first interpreter, and its %ENV the environment of the child. Later changes of %ENV in the child then also reach
 * the programs that the child executes, and signal handlers can be set in the system. The environment of the worker, which all
 * threads of the worker read, is never changed.
 */
#include "perl_host.h"

#ifdef USE_ITHREADS
extern char **environ;

/* "NAME=VALUE" in memory that Perl may free; NULL if the entry cannot be in an environment. */
static char *line_of(pTHX_ HE *entry) {
    SV *value = HeVAL(entry);
    const char *text = "";
    STRLEN size = 0, name_size = (STRLEN)HeKLEN(entry);
    char *line;
    if (HeKLEN(entry) <= 0 || memchr(HeKEY(entry), '=', name_size))
        return NULL;
    /* Perl turns every value of %ENV into a string. */
    if (SvPOK(value)) {
        text = SvPVX_const(value);
        size = SvCUR(value);
    }
    PERL_UNUSED_CONTEXT;
    line = (char *)safesysmalloc(name_size + size + 2);
    memcpy(line, HeKEY(entry), name_size);
    line[name_size] = '=';
    memcpy(line + name_size + 1, text, size);
    line[name_size + 1 + size] = '\0';
    return line;
}

void children_adopt(void) {
    PerlInterpreter *my_perl = (PerlInterpreter *)PERL_GET_CONTEXT;
    HV *variables;
    char **lines;
    size_t count = 0;
    if (!my_perl || my_perl == PL_curinterp || !PL_envgv || !(variables = GvHV(PL_envgv)))
        return;
    /* Reads the buckets directly, because iterating would disturb the app's own iterator. */
    lines = (char **)safesysmalloc((HvTOTALKEYS(variables) + 1) * sizeof(char *));
    if (HvARRAY(variables)) {
        for (STRLEN bucket = 0; bucket <= HvMAX(variables); bucket++) {
            for (HE *entry = HvARRAY(variables)[bucket]; entry; entry = HeNEXT(entry)) {
                char *line = HeVAL(entry) == &PL_sv_placeholder ? NULL : line_of(aTHX_ entry);
                if (line)
                    lines[count++] = line;
            }
        }
    }
    lines[count] = NULL;
    environ = lines;
    PERL_SET_INTERP(my_perl);
}
#else
void children_adopt(void) {
}
#endif
