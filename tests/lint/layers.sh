#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Every include of src/ and include/ against layers.txt: other layers, internal
# headers of other layers, headers of libraries.
set -eu
. tests/lint/common.sh

find_files -path 'src/*.[ch]' -o -path 'include/*.[ch]' \
    -o -path 'src/*.def' -o -path 'include/*.def' |
    while IFS= read -r file; do
        # Line and the header with its quotes or brackets.
        sed -n 's/^[ 	]*#[ 	]*include[ 	]*\(["<][^">]*[">]\).*/\1/
                t found
                b
                : found
                =
                p' "$file" |
            while IFS= read -r line && IFS= read -r header; do
                printf '%s %s %s\n' "$file" "$line" "$header"
            done
    done |
    awk '
    # A pattern of the shell with * alone as a regular expression.
    function as_regex(glob) {
        gsub(/[.+]/, "[&]", glob)
        gsub(/[*]/, ".*", glob)
        return "^" glob "$"
    }
    function fault(text) {
        print file ":" line ": " text
        faults++
    }
    FILENAME != "-" {
        if ($1 == "layer") {
            known[$2] = 1
            for (i = 2; i <= NF; i++)
                may[$2, $i] = 1
        } else if ($1 == "library") {
            n_libraries++
            library[n_libraries] = as_regex($2)
            for (i = 3; i <= NF; i++)
                homes[n_libraries] = homes[n_libraries] " " as_regex($i)
        }
        next
    }
    {
        file = $1
        line = $2
        kind = substr($3, 1, 1)
        header = substr($3, 2, length($3) - 2)
        split(file, part, "/")
        layer = file ~ /^(src|include)\/[^\/]*$/ ? "main" : part[2]
        if (layer != "main" && !(layer in known)) {
            fault("layer " layer " is not in layers.txt")
            next
        }
        for (i = 1; i <= n_libraries; i++) {
            if (header !~ library[i])
                continue
            n = split(homes[i], home, " ")
            good = 0
            for (j = 1; j <= n; j++)
                if (file ~ home[j])
                    good = 1
            if (!good)
                fault("library header " header " does not belong here")
        }
        split(header, part, "/")
        other = part[1]
        if (kind == "<") {
            if ((other in known) && header ~ /\//)
                fault("our own header " header " in angle brackets")
            next
        }
        if (header == "config.h")
            next
        # What the top layer has for itself is of no folder.
        if (layer == "main" && header == "main_internal.h")
            next
        if (header !~ /\//) {
            fault("write the layer before \"" header "\"")
            next
        }
        if (!(other in known)) {
            fault("\"" header "\" is of no layer")
            next
        }
        if (header ~ /_internal[.]h$/ && other != layer)
            fault("\"" header "\" is for layer " other " alone")
        if (other == "picture" && layer != "picture")
            fault("\"" header "\" is of another program")
        if (layer != "main" && !((layer, other) in may))
            fault("layer " layer " may not include layer " other \
                  " (\"" header "\")")
    }
    END { exit faults > 0 }' tests/lint/layers.txt -
