/* table_layout.h - the expected layout of the tables behind Ruby's hashes, and a test of this layout. extconf.rb runs the test
 * when the extension is built, environment.c when the extension is loaded.
 */
#ifndef ORIBI_TABLE_LAYOUT_H
#define ORIBI_TABLE_LAYOUT_H

#include <ruby.h>
#include <ruby/st.h>
#include <stdbool.h>
#include <stddef.h>

/* An entry of a table. Ruby's public header declares the type without its fields. */
struct st_table_entry {
    st_index_t hash;
    st_data_t key;
    st_data_t record;
};

_Static_assert(sizeof(st_data_t) == sizeof(VALUE), "keys and values are kept as they are");
_Static_assert(sizeof(struct st_table_entry) == 3 * sizeof(st_data_t), "entries stand one behind the other");
_Static_assert(sizeof(((st_table *)0)->entries_start) == sizeof(st_index_t), "where they begin is a number");

/* The most entries of a hash that has Ruby's other, smaller kind of table. */
enum { LARGEST_SMALL_HASH = 8 };

static inline struct st_table_entry *entries_of(VALUE hash) {
    const st_table *table = RHASH_TBL(hash);
    return (struct st_table_entry *)table->entries + table->entries_start;
}

/* Whether nothing was removed from a hash of the larger kind, so that each entry is one of its pairs. */
static inline bool entries_are_dense(VALUE hash) {
    const st_table *table = RHASH_TBL(hash);
    return table->num_entries > LARGEST_SMALL_HASH && table->num_entries == table->entries_bound - table->entries_start;
}

/* Fills a copy of a hash entry by entry and checks that Ruby reads it correctly. */
static inline bool table_layout_is_as_believed(void) {
    enum { PAIRS = 24 };
    VALUE template = rb_hash_new(), copy, keys[PAIRS];
    struct st_table_entry *entry;
    for (int i = 0; i < PAIRS; i++) {
        keys[i] = rb_obj_freeze(rb_sprintf("key %d", i));
        rb_hash_aset(template, keys[i], Qnil);
    }
    copy = rb_hash_dup(template);
    if (!entries_are_dense(template) || !entries_are_dense(copy) || RHASH_SIZE(copy) != PAIRS)
        return false;
    entry = entries_of(copy);
    for (int i = 0; i < PAIRS; i++, entry++) {
        if (entry->key != keys[i] || entry->record != Qnil)
            return false;
        entry->record = INT2FIX(i);
    }
    for (int i = 0; i < PAIRS; i++)
        if (rb_hash_lookup(copy, keys[i]) != INT2FIX(i) || rb_hash_lookup(template, keys[i]) != Qnil)
            return false;
    return true;
}

#endif
