"""Pictures that commands make of their answers: SVG, by `--picture FILE.svg`.

    svg         writes SVG: elements, colours for light and dark, a file
    axes        scales and ticks of amounts and of times
    quota       what-if: quota used over time, and waits, then and what-if
    starts      forecast: when who starts
    spent       usage: who used, held, wasted and waited for how much

Invariant: a picture says nothing that the command's own answer does not say as well.
"""
