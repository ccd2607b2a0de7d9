/* app_metrics.c - Oribi::count and Oribi::observe: counters and histograms of apps. */
#include "perl_host.h"

/* The UTF-8 of a text. The app's own scalar stays as it is. */
static oribi_bytes text_of(pTHX_ SV *value) {
    oribi_bytes text;
    SvGETMAGIC(value);
    if (SvPOK(value) && !SvUTF8(value)) {
        text.data = SvPV_nomg_const(value, text.size);
        if (is_utf8_invariant_string((const U8 *)text.data, text.size))
            return text;
    }
    value = newSVsv_nomg(value);
    sv_2mortal(value);
    text.data = SvPVutf8(value, text.size);
    return text;
}

typedef int Act(oribi_bytes name, double number, const oribi_field *labels, size_t label_count);

static void add(pTHX_ const char *function, Act *act, SV **arguments, I32 count) {
    oribi_field labels[ORIBI_MOST_LABELS];
    oribi_bytes name;
    double number = 1;
    size_t label_count = 0;
    if (count > 1 && !looks_like_number(arguments[1]))
        croak("Oribi::%s: a number is expected after the name", function);
    if (count % 2 && count > 1)
        croak("Oribi::%s: labels are names and values, in turn", function);
    if (count > 2 + 2 * ORIBI_MOST_LABELS)
        croak("Oribi::%s: a figure has at most %d labels", function, ORIBI_MOST_LABELS);
    if (count > 1)
        number = SvNV(arguments[1]);
    name = text_of(aTHX_ arguments[0]);
    for (I32 i = 2; i < count; i += 2) {
        labels[label_count].name = text_of(aTHX_ arguments[i]);
        labels[label_count++].value = text_of(aTHX_ arguments[i + 1]);
    }
    if (!act(name, number, labels, label_count))
        croak("Oribi::%s: %" SVf, function, newSVpvn_flags(oribi_last_error(), strlen(oribi_last_error()),
                                                           SVs_TEMP | SVf_UTF8));
}

/* Oribi::count(NAME, [AMOUNT, [LABEL => VALUE, ...]]) */
XS(app_metrics_count) {
    dXSARGS;
    if (items < 1)
        croak("Usage: Oribi::count(name, amount, label => value, ...)");
    if (oribi_has_figures())
        add(aTHX_ "count", oribi_count, &ST(0), items);
    XSRETURN_EMPTY;
}

/* Oribi::observe(NAME, VALUE, [LABEL => VALUE, ...]) */
XS(app_metrics_observe) {
    dXSARGS;
    if (items < 2)
        croak("Usage: Oribi::observe(name, value, label => value, ...)");
    if (oribi_has_figures())
        add(aTHX_ "observe", oribi_observe, &ST(0), items);
    XSRETURN_EMPTY;
}
