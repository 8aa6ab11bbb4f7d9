# SPDX-License-Identifier: GPL-3.0-or-later
#
# Takes the block comments and the contents of strings and character constants
# out of C text, and keeps the lines, so that the checks see code alone. A
# comment of the // kind is kept: banned.sh looks for it.
{
    out = ""
    n = length($0)
    for (i = 1; i <= n; i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote) {
                out = out c
                quote = ""
            }
        } else if (two == "/*") {
            in_comment = 1
            out = out " "
            i++
        } else {
            # Names of headers are in quotes too, and never hold these.
            if (c == "\"" || c == "'")
                quote = c
            out = out c
        }
    }
    # Only a string with a backslash at the end of its line goes on.
    if (quote != "" && substr($0, n, 1) != "\\")
        quote = ""
    print out
}
