from vikingpi.cli import main

main()
